"""The Redis server: its keys, connections to it, and one of our own."""
