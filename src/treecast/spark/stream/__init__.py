"""Streams that survive: versions of the subscriptions, batches of output."""
