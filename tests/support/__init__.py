"""Shared by several tests: rounds of comparisons, and servers and sessions that tests start."""
