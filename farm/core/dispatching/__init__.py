"""Which job goes to which slot: platforms, balancers, and jobs held back deliberately."""
