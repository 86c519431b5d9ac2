"""One scenario with many settings and seeds: what is varied, how it is played, what is kept."""
