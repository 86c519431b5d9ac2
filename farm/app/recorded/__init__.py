"""Recorded runs: written, audited, explained, back-filled into Prometheus."""
