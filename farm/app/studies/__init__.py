"""Published experiments, played again on this farm's scheduler."""
