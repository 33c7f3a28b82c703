"""The broker network after ONYX: many brokers, one service; a document travels only where someone wants it.

`routing/` decides where that is.
"""
