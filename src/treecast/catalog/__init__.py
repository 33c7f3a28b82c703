"""A set of subscriptions that changes: settings, changes, versions."""
