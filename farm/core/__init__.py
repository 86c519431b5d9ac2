"""The farm as a pure value machine: events in, commands out. No clock, dice, I/O or logging."""
