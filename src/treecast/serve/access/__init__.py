"""Who may do what over HTTP: tokens, their scopes and limits, and the gate that asks for them.

`tokens.py` is the file, `gate.py` finds the token of a request, and `Access` says what it allows.
"""
