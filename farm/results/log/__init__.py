"""The event log of a run: written, read back, folded into a state, replayed."""
