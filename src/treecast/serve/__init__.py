"""Runs peers in the real world: the only room with sockets, an event loop, and disks that must not lose anything.

`treecast.serve.store` keeps what a peer has to remember.
"""
