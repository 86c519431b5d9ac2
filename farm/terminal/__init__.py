"""Shared by all command lines of the project: options, consoles, error messages."""
