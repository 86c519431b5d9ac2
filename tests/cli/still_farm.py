"""A farm that only lies in Redis, for tests of what operators' commands show, take and refuse.

No process plays it, so a test is quick, and whatever is handed in stays in the inbox.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from farm.cli.main import app
from farm.core.commands import EndJob
from farm.core.events import CancelRequested, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.pools.algorithm import PoolSnapshot
from farm.core.snapshot import BuilderView
from farm.live.redis.keys import Keys
from farm.live.redis.sort_keys import encode_member
from farm.live.store.saved import Attempt
from farm.live.store.store import Batch, Store
from farm.live.wire.messages import decode_envelope
from farm.live.wire.pool_report import FarmStatus, LostBuilder, PoolReport

AMD64 = Platform("amd64", True)


class StillFarm:
    """A farm that nobody plays, and the commands on it."""

    def __init__(self, client: Any, url: str, folder: Path) -> None:
        self.client, self.url, self.folder = client, url, folder
        self.keys = Keys("still:")
        self.store = Store(client, self.keys)
        self._serial = 0
        self.publish()

    def publish(self, **report: Any) -> None:
        status = FarmStatus(
            at=100, written_at=0, speed=1, submitted=0, waiting=0, running=0, ended={},
            builders={"idle": 1}, hosts=1, stopping=False,
            lost=(LostBuilder("linux-9", 90.0, "its host has gone silent", "linux"),),
        )  # fmt: skip
        pools = {
            name: PoolReport(
                snapshot=PoolSnapshot(pool=name, at=100.0), processors=(processor,),
                **(report if name == "linux" else {}),
            )
            for name, processor in (("linux", "amd64"), ("arm", "arm64"))
        }  # fmt: skip
        self.store.notices.publish(pools, {}, {}, status)

    def wait(self, *ids: str, **fields: Any) -> None:
        batch = Batch()
        for name in ids:
            self._serial += 1
            job = Job(**{"id": name, "service_time": 5.0, "platform": AMD64, **fields})
            batch.jobs[name] = job
            batch.submitted[name] = self._serial
            batch.waits(job, encode_member((0, 0.0, self._serial), name))
        self.store.commit(batch, "0-0", 0.0)

    def run(self, name: str, builder: str = "linux-1", **fields: Any) -> None:
        self._serial += 1
        batch = Batch()
        batch.jobs[name] = Job(**{"id": name, "service_time": 5.0, "platform": AMD64, **fields})
        batch.submitted[name] = self._serial
        batch.attempts[name] = Attempt(name, 1, builder, 0, 3.0, 3.5)
        self.store.commit(batch, "0-0", 3.0)

    def end(self, name: str, outcome: str = "succeeded", **fields: Any) -> None:
        self._serial += 1
        job = Job(**{"id": name, "service_time": 5.0, "platform": AMD64, **fields})
        batch = Batch()
        batch.submitted[name] = self._serial
        why = "" if outcome == "succeeded" else "because"
        batch.ended[name] = EndJob(job, outcome, 2, 1.0, 9.0, 2.0, 3.0, "linux-1", 0, why)
        self.store.commit(batch, "0-0", 9.0)

    def join(self, name: str, state: str = "idle", **fields: Any) -> None:
        batch = Batch()
        builder = Builder(id=name, pool="linux", index=1, processors=("amd64",))
        batch.builders[name] = BuilderView(
            builder=builder, condition=state, joined_at=1.0, active_at=1.0, **fields
        )
        self.store.commit(batch, "0-0", 1.0)

    def farm(self, *words: str, stdin: str | bytes | None = None, width: int = 0) -> Any:
        env = {"FARM_PREFIX": self.keys.prefix, "COLUMNS": str(width) if width else None}
        return CliRunner().invoke(app, [*words, "--redis", self.url], input=stdin, env=env)

    def says(self, *words: str, code: int = 0, **options: Any) -> str:
        """Return standard output of a command that ends with this exit code."""
        done = self.farm(*words, **options)
        error = done.exception
        assert done.exit_code == code or getattr(error, "exit_code", 1) == code, (done, error)
        return done.stdout if code == 0 else f"{done.stdout}{error}"

    def rows(self, *words: str, **options: Any) -> list[Any]:
        return [json.loads(line) for line in self.says(*words, "--json", **options).splitlines()]

    def inbox(self) -> list[Any]:
        """Return the reports that were handed in, and forget them."""
        entries = self.client.xrange(self.keys.inbox)
        self.client.delete(self.keys.inbox)
        return [r for _, fields in entries for r in decode_envelope(fields[b"m"]).reports]

    def submitted(self) -> list[Job]:
        return [job for r in self.inbox() if isinstance(r, JobsSubmitted) for job in r.jobs]

    def cancelled(self) -> list[str]:
        return [name for r in self.inbox() if isinstance(r, CancelRequested) for name in r.jobs]
