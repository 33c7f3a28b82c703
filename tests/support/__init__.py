"""What several tests share: rounds of comparisons, servers and sessions that tests start."""
