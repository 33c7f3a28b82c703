["source", "news"]
["source", "sport"]
