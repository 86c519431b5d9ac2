"""Commands that make runs, and read what they leave."""
