"""The scheduler as a pure state machine: events in, commands out. No clock, randomness or I/O."""
