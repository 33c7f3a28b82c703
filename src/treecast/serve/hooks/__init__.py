"""Web hooks: deliveries are sent to the endpoints of others, signed, in order if wanted, again if need be.

`sender.py` makes requests that reach no internal address; everything that leaves because a stranger named a URL goes
through it. `signing.py` and `schedule.py` are pure; `endpoint.py` runs one hook, `hooks.py` all of them.
"""
