"""Peers of a ring in real processes: `peer_process.py` runs one, `ring_service.py` some of them with one HTTP door."""
