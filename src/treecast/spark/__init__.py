"""treecast on Spark."""
