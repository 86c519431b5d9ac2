"""Pools: the properties of their builders, and how many there should be."""
