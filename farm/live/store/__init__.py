"""The farm's state in Redis: written in one transaction a batch, and read back."""
