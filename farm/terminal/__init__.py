"""What every command line of the project shares: options, consoles, error messages."""
