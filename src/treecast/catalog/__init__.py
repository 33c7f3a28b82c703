"""A set of subscriptions that changes: settings, changes, versions, and the ids of what it delivers. No Spark here."""
