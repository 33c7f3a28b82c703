"""Selective publishing: few large documents, many groups, each of which may see other subtrees.

Use it if who may see what is decided by the parts of a document. If everybody may see everything and only wants
different things, an `Index` is simpler and faster.

    folded      elements that stand alone
    outline     labels (PON, LB) that survive changes, and stable ids
    encoding    the paper's form of a labelled document
    subtrees    SSL, the language of subscriptions to subtrees
    selector    what paths select in a version of a document, and which are refused
    labelled    a document with labels; paths become subscriptions
    view        what somebody sees of a document
    mxb         which subtrees somebody asked for, as a tree that reflects the document
    routing_table  who gets which part of a subtree
    forwarding  covering and merging: what a broker asks for on behalf of others
    versions    what a new version of a document changes
    policies    who may see which subtrees
    publisher   sealed and signed views, one for each group; group_view, package, digests, keys
    subscriber  opens, verifies and puts together what a member may see

Nothing here does input or output. `treecast.overlay.selective` makes a network of brokers of it.
Source: Nabeel and Bertino, "Efficient and Selective Publishing of Hierarchically Structured Data" (Selective).
"""
