"""What is to come, asked of a farm: estimates, changed farms, sizes that suffice, run times."""
