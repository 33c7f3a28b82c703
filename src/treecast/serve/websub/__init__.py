"""WebSub: treecast as a hub (W3C Recommendation of 23 January 2018). A topic is a subscription, under a URL.

`topics.py` knows the last payload of each topic, `subscriber.py` sends everything to one callback, `hub.py` verifies
who wants to be one. Requests to callbacks go through the sender of web hooks, which reaches no internal address.
"""
