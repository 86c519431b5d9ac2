"""The Redis server: keys, connections, and the embedded server."""
