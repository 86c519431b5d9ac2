"""Runs side by side, and whether their difference is more than noise."""
