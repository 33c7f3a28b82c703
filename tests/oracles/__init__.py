"""Independent judges of what treecast answers: lxml, Saxon, brute force."""
