"""Which job goes to which slot: platforms, balancers, and waiting on purpose."""
