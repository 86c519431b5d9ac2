"""Provisioning algorithms: pure functions, one a file."""
