"""Runs that were recorded: written, audited, explained, filled into a Prometheus."""
