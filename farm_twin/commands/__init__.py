"""Commands on the records of the user's own farm."""
