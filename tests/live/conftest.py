"""What the tests of the live world share: servers, a cuttable wire, a whole farm."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.model import Job, Outcome, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Estimator, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.registry import make_estimator
from farm.live.options import LiveOptions
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import EmbeddedServer, Server
from farm.live.run import LiveRun, Watchers, run_live
from tests.fixtures.wire import Wire
from tests.worlds.up import Service

AMD64 = Platform("amd64", True)
_serial = itertools.count()


@pytest.fixture
def keys() -> Keys:
    """Keys that no other test uses."""
    return Keys(f"test{os.getpid()}-{next(_serial)}:")


@pytest.fixture
def client(server: Server):
    """A connection to the real server."""
    with contextlib.closing(connect(server.url, "test")) as connection:
        yield connection


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.live)])
def redis(request):
    """A client of the fake, then of the real server."""
    if request.param == "real":
        return request.getfixturevalue("client")
    return fakeredis.FakeRedis(protocol=2)


@pytest.fixture
def wire(server: EmbeddedServer) -> Iterator[Wire]:
    """A cuttable wire to the shared server."""
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1].split("/")[0]))
    proxy = Wire(socket.create_server(("127.0.0.1", 0)), lambda: socket.create_connection(address))
    yield proxy
    proxy.close()


@pytest.fixture
def hostless(server: Server, keys: Keys, tmp_path: Path) -> Iterator[Service]:
    """A long-running farm without a scheduler or hosts yet; nothing is left of it."""
    found = Service(server, keys, tmp_path)
    yield found
    found.close()


@pytest.fixture
def truth() -> Estimator:
    """An estimator that knows the service time."""
    return make_estimator("oracle")


class Farm:
    """A live farm for a test: run it, then check what the observers saw."""

    def __init__(self, keys: Keys, log_folder: Path) -> None:
        self.rules = SchedulingRules()
        self.pools: list[PoolSpec] = []
        self.scheduler = Scheduler(self.rules, make_estimator("oracle"))
        self.keys = keys
        self.log_folder = log_folder
        self.story: list[tuple[Event, list[Command]]] = []

    def run(
        self,
        jobs: list[Job],
        *,
        builders: int = 8,
        url: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_up=lambda *_: None,
        pool: dict[str, object] | None = None,
        **options: Any,
    ) -> LiveRun:
        def observe(event: Event, commands) -> None:
            self.story.append((event, list(commands)))
            if on_event is not None:
                on_event(event)

        self.pools = [
            PoolSpec(name="linux", processors=("amd64",), builders=builders, **(pool or {}))
        ]
        self.scheduler = Scheduler(self.rules, make_estimator("oracle"), self.pools)
        arrivals = [(job.arrived_at or 0.0, (job,)) for job in jobs]
        settings = LiveOptions(
            redis_url=url,
            prefix=self.keys.prefix,
            log_folder=self.log_folder,
            **{"beat_interval": 0.25, **options},
        )
        return run_live(
            self.scheduler, self.pools, arrivals, settings, Watchers(observe=observe, on_up=on_up)
        )

    @property
    def ends(self) -> list[EndJob]:
        return [c for _, commands in self.story for c in commands if isinstance(c, EndJob)]

    def events(self, kind: type) -> list[Event]:
        return [event for event, _ in self.story if isinstance(event, kind)]

    def assert_each_job_ended_once(self, jobs: list[Job], outcome: Outcome = "succeeded") -> None:
        ended = [(end.job.id, end.outcome) for end in self.ends]
        assert sorted(ended) == sorted((job.id, outcome) for job in jobs)

    def assert_replayable(self) -> None:
        """The same events lead a fresh scheduler to the same commands."""
        fresh = Scheduler(self.rules, make_estimator("oracle"), self.pools)
        for event, commands in self.story:
            assert list(fresh.handle(event)) == commands


@pytest.fixture
def farm(keys: Keys, tmp_path: Path) -> Farm:
    """A farm with its own keys on its own server."""
    return Farm(keys, tmp_path)


@pytest.fixture
def jobs_like() -> Callable[..., list[Job]]:
    """Make jobs that arrive at a steady pace."""

    def make(count: int, service_time: float, every: float = 0.0, **more: Any) -> list[Job]:
        return [
            Job(
                id=f"job-{number}",
                service_time=service_time,
                platform=AMD64,
                arrived_at=number * every,
                **more,
            )
            for number in range(count)
        ]

    return make
