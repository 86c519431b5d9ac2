"""A farm read from its own records: what they say of its load, its servers and its waits."""
