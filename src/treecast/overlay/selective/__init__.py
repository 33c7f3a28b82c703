"""A network for selective publishing: a source, levels of brokers, subscribers. State machines, no I/O.

    source             rank 0: makes versions of a document
    selective_broker   ranks 1 to n; upward (what it asks for), downward (what it is asked for), neighbours
    subscriber_peer    rank n+1

What the parts of a document are and who wants which is in `treecast.selective`; here is how it gets there.
"""
