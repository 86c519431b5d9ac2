"""Commands that write, list and describe scenarios and their inputs."""
