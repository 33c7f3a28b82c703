"""Rings of peers in the simulated world."""
