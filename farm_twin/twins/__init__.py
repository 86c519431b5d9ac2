"""A farm inferred from its records, and checked against the half of them it has not seen."""
