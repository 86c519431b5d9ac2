"""What a builder does, behind an agenda: in virtual time or in real time."""
