"""Prometheus metrics, computed from what the driver observes and from snapshots."""
