"""Named workloads, measured next to lxml in the same process. `python -m bench --help` lists them."""
