"""Comparison of runs, and whether their differences are significant."""

from __future__ import annotations

RELEVANT = 0.01
"""Differences below this share of the base are small, by default."""
