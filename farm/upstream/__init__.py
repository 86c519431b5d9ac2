"""Other systems' own rules, as they are."""
