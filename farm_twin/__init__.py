"""The wing for a real farm: its records are read, diagnosed, and made a simulated farm."""
