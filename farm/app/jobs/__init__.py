"""Jobs of a live farm: listed, submitted, looked up, retried."""
