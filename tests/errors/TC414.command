["source", ""]
