"""The farm forked into the simulation, many times over."""
