"""Documents and subscriptions from wherever they lie."""
