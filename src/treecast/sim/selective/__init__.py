"""Networks of selective publishing in the simulated world."""
