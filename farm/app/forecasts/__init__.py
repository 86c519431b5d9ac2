"""What is to come, asked of a farm: what a change does, which sizes suffice, how long jobs run."""
