"""Peers of a network as state machines: what arrives goes in, what is to be done comes out, and nothing here does I/O.

`treecast.sim` runs them in a simulated world with faults, `treecast.serve` on real sockets and disks. Both obey the
same rules, which `peer.py` states. So what a simulation has shown holds for the code that runs in production.
"""
