["publish", "news", [["PGEvPg==", ""]]]
