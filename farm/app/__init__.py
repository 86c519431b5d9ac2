"""Builds and runs both worlds: what a command, a test or a notebook calls."""
