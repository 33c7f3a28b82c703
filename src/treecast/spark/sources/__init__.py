"""The data source `treecast`: files, archives, record files, streams of files, the documents of a broker."""
