"""Provisioning algorithms: pure functions, one per file."""
