["source", "news"]
["publish", "news", [["PGEvPg==", ""], ["PGEvPg==", ""]]]
