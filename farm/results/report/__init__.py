"""A report of a run, of several, or of a sweep: figures, numbers, and a summary in words."""
