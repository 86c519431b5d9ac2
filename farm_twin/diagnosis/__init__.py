"""What records say of a farm: its load, its servers and its waits, and why jobs wait."""
