["redeliver", [1]]
