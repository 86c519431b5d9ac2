"""``celery -A workers.app worker``: the one Celery app of a builder host.

Importing this reads the settings from the environment (FARM_REDIS_URL, FARM_HOST, …; see
``farm.live.settings``) and connects to nothing; the host comes alive with the worker.
"""

from __future__ import annotations

from farm.core.errors import FarmError
from farm.live.redis.keys import Keys
from farm.live.settings import from_environment
from workers.celery_app import RefusedMessages, celery_app
from workers.lifecycle import bind
from workers.tasks import register

try:
    settings = from_environment()
except FarmError as error:
    raise SystemExit(str(error)) from None
host = bind(settings)
app = celery_app(
    settings.redis_url or "redis://127.0.0.1:6379/0",
    Keys(settings.prefix),
    settings.host,
    RefusedMessages(host.metering.metrics.refused),
)
register(app, host)
