"""Published experiments, repeated with this farm's scheduler."""
