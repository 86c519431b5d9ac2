"""Bundles of records: cut, scaled, merged, and without names."""
