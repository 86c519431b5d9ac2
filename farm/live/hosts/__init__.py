"""Builder hosts: which are present, which builders they run, and what they report."""
