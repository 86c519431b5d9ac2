"""Launchpad's other rules: scores, duration estimates, and who is to blame for a failure."""
