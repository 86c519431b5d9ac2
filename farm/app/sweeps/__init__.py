"""Sweeps: one scenario with many settings and seeds."""
