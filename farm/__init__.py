"""An emulated build farm that really runs, and the same farm in virtual time."""
