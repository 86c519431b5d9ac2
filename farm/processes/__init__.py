"""Operating-system processes: kept up, identified, ended; their signals and logs."""
