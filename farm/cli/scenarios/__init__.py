"""Commands that write, list and describe scenarios, and what they are made from."""
