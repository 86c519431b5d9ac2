"""Commands about the jobs of a long-running farm and their order."""
