"""Charts of results, as self-contained pictures."""
