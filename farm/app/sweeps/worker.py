"""``celery -A farm.app.sweeps.worker worker``: plays the runs of ``farm sweep --redis URL``.

The server is that of FARM_REDIS_URL. Files that a scenario reads must exist under the same path,
with the same content; so must the user's own code that it names, as it was when a worker loaded it.
"""

from __future__ import annotations

import msgspec

from farm.app.sweeps.execution import SentRuns
from farm.core.errors import FarmError
from farm.live.remote_calls import remote_app, serve
from farm.live.settings import from_environment


def play(text: str) -> str:
    """Simulate runs that were sent; return their figures as JSON."""
    return msgspec.json.encode(msgspec.json.decode(text, type=SentRuns).play()).decode()


try:
    settings = from_environment()
except FarmError as error:
    raise SystemExit(str(error)) from None
app = remote_app(settings.redis_url or "redis://127.0.0.1:6379/0", settings.prefix)
serve(app, play)
