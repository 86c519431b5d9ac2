"""Launchpad's other rules: scores, duration estimates, and the judgement of failures."""
