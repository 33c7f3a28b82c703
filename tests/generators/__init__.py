"""Documents, queries and populations drawn at random."""
