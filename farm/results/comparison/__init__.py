"""Comparison of runs, and whether their differences are significant."""
