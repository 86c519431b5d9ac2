"""Commands about the jobs of a farm that stays up, and about who goes next."""
