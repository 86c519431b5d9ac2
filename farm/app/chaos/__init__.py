"""Faults on purpose: a farm of its own that is hurt by a seeded plan, and then audited."""
