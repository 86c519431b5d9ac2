"""Backends, which carry out plans: processes of this machine, containers, or none (dry run)."""
