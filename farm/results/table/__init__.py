"""The table of a run: its jobs, builders and attempts, each with one list of columns."""
