"""Commands that start, stop, show and change a long-running farm."""
