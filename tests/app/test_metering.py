"""What a run starts for its metrics ends with it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from farm.app.runs.metering import Metering
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.regular_work import Background
from farm.live.settings import LiveSettings
from farm.metrics.exporter import MetricsPlace


def test_no_thread_is_left_that_asks_the_server():
    """A notebook runs many farms: each would leave a thread that asks a server that is gone."""
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"))
    metering = Metering(scheduler, (), 1.0, MetricsPlace(port=0))
    world = SimpleNamespace(trouble=None, add_step=Background().add)
    hosts = SimpleNamespace(settings=LiveSettings(redis_url="redis://127.0.0.1:1/0"))
    before = set(threading.enumerate())
    with metering:
        metering.meet(world, hosts)
        assert any(thread.name == "farm-watch" for thread in threading.enumerate())
    assert set(threading.enumerate()) <= before
