"""Live jobs: accepted, cancelled, requeued, ended."""
