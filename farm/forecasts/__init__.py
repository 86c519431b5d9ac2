"""How long a job will run, and when it will be dispatched."""
