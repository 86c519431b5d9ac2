"""The Celery side of the farm: a worker process is a builder host, which runs builders."""
