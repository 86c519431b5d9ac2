"""Functions of the user's own: found by name, and guarded."""
