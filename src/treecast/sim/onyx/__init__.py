"""The broker network in the simulated world."""
