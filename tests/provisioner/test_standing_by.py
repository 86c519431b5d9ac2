"""A provisioner in charge, and one on standby: the loop around its service."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import redis

from farm.core.errors import RunError
from farm.live.redis.lease import Lease
from farm.live.settings import LiveSettings
from farm.processes.signals import StopRequest
from provisioner.service import serve, take_charge


def test_a_provisioner_that_stands_by_waits_for_a_server_in_trouble(monkeypatch):
    """It is there for the case that things go wrong: it must not end first."""
    answers = iter([None, redis.ConnectionError("gone"), "the fence"])

    def try_to_take(_: Lease, __: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Lease, "try_to_take", try_to_take)
    with ExitStack() as stack:
        take_charge("redis://127.0.0.1:1/0", LiveSettings(), stack, StopRequest())
    assert next(answers, "none is left") == "none is left"


def test_the_service_waits_for_a_server_in_trouble_until_it_is_stopped(caplog):
    """Trouble is said once; a request for the end is obeyed in the midst of it."""
    stop, looks = StopRequest(), list[int]()

    def look() -> None:
        looks.append(1)
        if len(looks) == 4:
            stop.set()
        if len(looks) != 3:
            raise redis.OutOfMemoryError("command not allowed")

    service = SimpleNamespace(restore=lambda: None, look=look, wait=lambda stop: stop.wait(0.0))
    with caplog.at_level("INFO"):
        serve(service, SimpleNamespace(lost=False), stop)
    assert len(looks) == 4
    trouble, well, again, stopped = caplog.messages
    assert "trouble with the Redis server" in trouble
    assert "well again" in well
    assert "trouble with the Redis server" in again
    assert stopped == "stopped"


def test_a_deposed_provisioner_ends():
    """Two would request builders twice."""
    service = SimpleNamespace(
        restore=lambda: None, look=lambda: None, wait=lambda stop: stop.wait(0.0)
    )
    with pytest.raises(RunError, match="another provisioner"):
        serve(service, SimpleNamespace(lost=True), StopRequest())
