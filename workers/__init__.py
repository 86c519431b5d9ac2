"""The Celery side of an emulated builder."""
