"""The broker network of ONYX: many brokers, one service. State machines without I/O.

`view.py` says who takes part and which trees documents travel along; `registry/` decides it, and `membership.py` is how
a broker follows. `routing/` decides where a document is wanted. `network_broker.py` is a broker with all of that.
"""
