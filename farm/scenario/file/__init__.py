"""A scenario file as marked data: its lines, what is changed in it, and what is wrong with it."""
