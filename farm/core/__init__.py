"""The farm as a pure value machine: facts in, orders out. No clock, dice, I/O or logging."""
