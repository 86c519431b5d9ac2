"""Whatever is in a host's queue, the host keeps running, and leaves nothing behind in Redis."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.core.commands import StartJob
from farm.core.events import JobFinished
from farm.core.model import Builder, Job
from farm.live.host_processes import HostProcess
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play
from farm.live.wire.task_messages import TaskMessages
from farm.processes.supervisor import end_process
from tests.fixtures.processes import until
from tests.fixtures.store import reports_in

pytestmark = pytest.mark.live

MESSAGES = TaskMessages()
START = StartJob(Job(id="a", service_time=0.01), 1, "b", 0)
PLAY = Play(builder=Builder(id="b", pool="p", index=0))


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a start command's message after a change."""
    message = json.loads(MESSAGES.encode(START, "host"))
    change(message)
    return json.dumps(message).encode()


def body(value: Any) -> bytes:
    """Return a start command's message with this body instead."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return changed(lambda message: message.update(body=base64.b64encode(text).decode()))


def command(**changes: Any) -> bytes:
    """Return a start command's message with this job."""
    job = {"id": "a", "service_time": 0.01} | changes
    return body([[{"job": job, "attempt": 1, "builder": "b", "slot": 0}, 3], {}, {}])


GARBAGE = {
    "no JSON": b"not json",
    "nothing": b"",
    "no UTF-8": b'{"body": "\xff\xfe"}',
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "deep": b"[" * 200_000,
    "deep and closed": b"[" * 200_000 + b"]" * 200_000,
    "huge": b'"' + b"x" * 20_000_000 + b'"',
    "no properties": changed(lambda m: m.pop("properties")),
    "properties of another type": changed(lambda m: m.update(properties=[1])),
    "no delivery tag": changed(lambda m: m["properties"].pop("delivery_tag")),
    "no headers": changed(lambda m: m.pop("headers")),
    "headers of another type": changed(lambda m: m.update(headers="x")),
    "no task": changed(lambda m: m["headers"].pop("task")),
    "an unknown task": changed(lambda m: m["headers"].update(task="farm.dance")),
    "a task of another type": changed(lambda m: m["headers"].update(task=["farm.start"])),
    "no base64": changed(lambda m: m.update(body="%%%")),
    # (the body of this one, and of one more, can still be read)
    "another encoding": changed(lambda m: m["properties"].update(body_encoding="rot13")),
    "a body of another type": changed(lambda m: m.update(body={"a": 1})),
    "a pickle": changed(lambda m: m.update({"content-type": "application/x-python-serialize"})),
    "another character set": changed(lambda m: m.update({"content-encoding": "klingon"})),
    "no body": changed(lambda m: m.pop("body")),
    "a body that is no JSON": body(b"\xff{"),
    "a deep body": body(b"[" * 200_000 + b"]" * 200_000),
    "no arguments": body({}),
    "too few arguments": body([[], {}, {}]),
    "too many arguments": body([[1, 2, 3, 4], {}, {}]),
    "arguments of other types": body([["x", "y"], {}, {}]),
    "an old version": body([[{}, 1], {}, {}]),
    "a command of another type": body([[[], 3], {}, {}]),
    "a job without a time": body([[{"job": {"id": "a"}, "attempt": 1}, 3], {}, {}]),
    "a time that is no number": command(service_time=float("nan")),
    "an endless time": command(service_time=float("inf")),
    "a negative time": command(service_time=-1.0),
    "a huge number of threads": command(threads=10**300),
    "a lone surrogate": command(id="\ud800"),
    "too many attributes": command(attributes={str(n): "x" for n in range(1000)}),
}


@pytest.fixture
def host(server, keys: Keys, tmp_path: Path) -> Iterator[HostProcess]:
    """A builder host without builders yet."""
    settings = LiveSettings(redis_url=server.url, prefix=keys.prefix, host="host")
    process = HostProcess(settings, tmp_path / "log")
    yield process
    end_process(process, 20)
    process.close()


@pytest.mark.slow
def test_no_garbage_ends_a_host(server, keys: Keys, host, tmp_path: Path):
    """After each kind of garbage it still obeys; it logs a line a minute, not a line a message."""
    log = tmp_path / "log"
    with contextlib.closing(connect(server.url, "test")) as client:
        until(lambda: client.xlen(keys.stream("reports")), "a report", log=log.read_text)
        queue = keys.host_list("host")
        client.lpush(queue, MESSAGES.encode(PLAY, "host"))
        for number, garbage in enumerate(GARBAGE.values()):
            client.lpush(queue, garbage)
            start = StartJob(Job(id=f"j{number}", service_time=0.0), 1, "b", 0)
            client.lpush(queue, MESSAGES.encode(start, "host"))
        wanted = {f"j{number}" for number in range(len(GARBAGE))}

        def ended() -> set[str]:
            return {r.job for r in reports_in(client, keys) if isinstance(r, JobFinished)}

        until(lambda: ended() >= wanted, "the end of all", log=log.read_text)
        assert log.read_text().count("refused") == 1
        host.send_signal(signal.SIGTERM)
        assert host.wait(20) == 0
        left = {key.decode() for key in client.scan_iter(match=f"{keys.prefix}*")}
        assert left == {keys.stream("reports")}
