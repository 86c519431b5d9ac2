"""Builder hosts as processes."""
