"""The live world: a real Redis server, real Celery messages, builders that report."""
