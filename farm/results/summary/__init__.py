"""What a run came to, in one small value."""
