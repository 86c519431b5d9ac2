"""A fake Docker Engine with prepared containers, and what the scheduler says beside it."""

from __future__ import annotations

from concurrent.futures import wait
from types import SimpleNamespace
from typing import Any

from farm.core.pools.algorithm import PoolSnapshot
from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.backends.prepared import PreparedBackend
from provisioner.backends.prepared_api import PreparedApi


class Refused(OSError):  # noqa: N818 - an answer, not a mistake
    """As the SDK's APIError: it knows the answer's status."""

    def __init__(self, status_code: int, text: str = "no") -> None:
        super().__init__(f"{status_code}: {text}")
        self.status_code = status_code


class ReadTimeout(OSError):  # noqa: N818 - the SDK's name
    """As that of the library that the SDK uses."""


class FakeEngine:
    """Containers in a dict, behind one address for reading and one for writing."""

    def __init__(self) -> None:
        self.boxes: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        #: what each way answers instead of doing it
        self.broken: dict[str, Exception] = {}
        self.bad: dict[str, Exception] = {}
        self.garbage: Any = None

    def prepare(self, count: int, pool: str = "", farm: str = "farm") -> None:
        for _ in range(count):
            number = len(self.boxes) + 1
            labels = {"farm.role": "prepared", "farm.farm": farm}
            self.boxes[f"box-{number}"] = {
                "Id": f"{number:012}{'f' * 52}",
                "Names": [f"/box-{number}"],
                "State": "created",
                "Status": "Created",
                "Labels": labels | ({"farm.pool": pool} if pool else {}),
            }

    def connect(self, host: str | None, _: float) -> Any:
        way = str(host)
        api = SimpleNamespace(
            containers=lambda **how: self._list(way, **how),
            start=lambda name: self._start(way, name),
            stop=lambda name: self._stop(way, name),
        )
        return SimpleNamespace(api=api, close=lambda: self.calls.append(f"{way} close"))

    def _answer(self, way: str) -> None:
        if way in self.broken:
            raise self.broken[way]

    def _list(self, way: str, *, all: bool, filters: dict[str, list[str]]) -> Any:  # noqa: A002
        assert all
        self._answer(way)
        if self.garbage is not None:
            return self.garbage
        wanted = dict(label.split("=") for label in filters["label"])
        return [box for box in self.boxes.values() if wanted.items() <= box["Labels"].items()]

    def _start(self, way: str, name: str) -> None:
        self._answer(way)
        self.calls.append(f"start {name}")
        if name in self.bad:
            raise self.bad[name]
        self.boxes[name].update(State="running", Status="Up 1 second")

    def _stop(self, way: str, name: str) -> None:
        self._answer(way)
        self.calls.append(f"stop {name}")
        if name in self.bad:
            raise self.bad[name]
        self.end(name, 0)

    def end(self, name: str, code: int) -> None:
        self.boxes[name].update(State="exited", Status=f"Exited ({code}) 3 seconds ago")

    @property
    def running(self) -> list[str]:
        return [name for name, box in self.boxes.items() if box["State"] == "running"]


class World:
    """An Engine, what the scheduler says, and a backend that is called once a second."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.now = 1000.0
        self.need: dict[str, int] = {"p": 0}
        #: builders by container
        self.playing: dict[str, int] = {}
        self.leaving: set[str] = set()
        self.silent: set[str] = set()
        self.backend = self.begin()

    def begin(self, **how: Any) -> PreparedBackend:
        api = PreparedApi("farm", "read", "write", self.engine.connect)
        return PreparedBackend(api, come_up=30.0, clock=lambda: self.now, **how)

    def hosts(self) -> dict[str, HostRecord]:
        """Those of running containers, unless they keep silent."""
        return {
            f"{name[4:]:0>12}": HostRecord(
                f"{name[4:]:0>12}", self.playing.get(name, 0), leaving=name in self.leaving
            )
            for name in self.engine.running
            if name not in self.silent
        }

    def look(self, count: int = 1, backend: PreparedBackend | None = None) -> dict[str, str]:
        troubles: dict[str, str] = {}
        for _ in range(count):
            self.now += 1.0
            reports = {pool: report(pool, count) for pool, count in self.need.items()}
            one = backend or self.backend
            troubles = dict(one.tend(reports, self.hosts()))
            wait(one._stops.values(), 5)
        return troubles


def report(pool: str, builders: int, **more: Any) -> PoolReport:
    """Return the report of a pool in which so many builders are there."""
    joined = tuple(f"{pool}-{number}" for number in range(builders))
    return PoolReport(snapshot=PoolSnapshot(pool=pool, at=0.0), joined=joined, **more)
