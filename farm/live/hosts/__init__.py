"""Builder hosts: who is there, what each plays, and what it reports."""
