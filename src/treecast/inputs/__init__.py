"""Documents and subscriptions from files and objects: the one reader of the command line, of jobs and of services.

`treecast.inputs.document_files` reads documents: files, directories, patterns, archives, record files, standard input.
`treecast.inputs.subscriptions` reads subscriptions: files in seven formats, tables, DataFrames, lists.
Nothing here needs Spark; Spark's data source and `treecast run` read with it as `treecast match` does.
"""
