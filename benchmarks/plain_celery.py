"""A Celery app that does nothing, as the baseline of benchmarks/live.py.

celery -A benchmarks.plain_celery worker --pool=solo
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

URL = os.environ["BENCHMARK_REDIS_URL"]
QUEUE = "plain"

app = Celery("plain", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    task_default_queue=QUEUE,
)


@app.task(name="plain.nothing")  # type: ignore[untyped-decorator]  # Celery ships no types
def nothing(job: dict[str, Any]) -> None:
    """Do nothing."""
