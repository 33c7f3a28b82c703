["unsubscribe", "mine"]
