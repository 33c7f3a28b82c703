"""Named workloads, measured beside lxml in the same process. `python -m bench --help` lists them."""
