"""Jobs of a live farm from outside: read, submitted, looked up, tried again."""
