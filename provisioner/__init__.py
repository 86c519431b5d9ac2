"""The service that sizes pools of builders from queue depth."""
