"""The rules of other systems, unchanged."""
