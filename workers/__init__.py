"""The Celery side of the farm: a worker process is a builder host that plays builders."""
