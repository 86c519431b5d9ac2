"""Where jobs come from: arrivals, service times, matrices, traces in."""
