"""Commands that start, stop, show and change a farm that stays up."""
