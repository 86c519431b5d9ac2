"""Contention on this machine: measured, saved, compared with simulations."""
