"""Scenario files as data with line numbers, overrides, and error messages."""
