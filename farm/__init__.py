"""An emulated build farm that really runs, and a simulator that is the same farm in virtual time."""
