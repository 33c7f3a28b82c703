["place", "q1", "//a"]
