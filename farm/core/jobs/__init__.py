"""Live jobs: taken in, cancelled, put back, ended."""
