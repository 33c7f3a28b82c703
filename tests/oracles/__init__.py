"""Independent oracles for the answers of treecast: lxml, Saxon, brute force."""
