"""A farm that stays up: started, found, kept, looked at, ended."""
