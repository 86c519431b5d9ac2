"""A scenario run in either world: simulated or live, with estimates, metrics and own parts."""
