"""Fault injection: a separate farm gets faults by a seeded plan, and is then audited."""
