"""Pools: what their builders are like, and how many there should be."""
