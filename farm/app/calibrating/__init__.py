"""Contention on this machine: measured and saved."""
