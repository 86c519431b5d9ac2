"""The live world: real processes around a Redis-compatible server and Celery."""
