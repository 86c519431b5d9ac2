"""Operating-system processes: kept up, told apart, ended; their signals and logs."""
