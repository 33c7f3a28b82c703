"""Workers that share one set of documents, subscriptions and deliveries, kept by NATS JetStream.

`treecast up --backbone nats://…` runs one. docs/guide/fleet.md says what is promised.
"""
