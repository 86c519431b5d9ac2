"""Builds and runs both worlds, for commands, tests and notebooks."""
