"""Independent oracles of what treecast answers: lxml, Saxon, brute force."""
