"""The doors of a broker: how publishers and subscribers reach it with the tools they have. HTTP is the first.

A door runs in the broker's process. It speaks the same messages as any client (`local.py`), without a connection.
"""
