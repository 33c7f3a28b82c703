"""The firewall: documents are checked, and sent on to back ends by rules (XTrie, section 1: XML routers).

`rules.py` reads the operator's file, `dispatcher.py` carries a rule out, `backend.py` and `health.py` know the servers
behind, `forwarding.py` talks to them, and `pages.py` is the door. See docs/guide/firewall.md.
"""
