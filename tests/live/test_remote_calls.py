"""Calls by workers, as a ledger: lost calls are sent again, a bounded number of times."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from celery.exceptions import TimeoutError as NotYet

from farm.core.errors import RunError
from farm.live import remote_calls


class Workers:
    """Stands for Celery: each call is lost a number of times, then answered; one is held."""

    def __init__(self, losses: dict[str, int], held: dict[str, int] | None = None) -> None:
        self.losses, self.held = losses, dict(held or {})
        self.sent: Counter[str] = Counter()
        self.control = self

    def inspect(self, workers: list[str] | None = None, *, timeout: float) -> Workers:
        assert workers in (None, ["one"])
        assert timeout > 0
        return self

    def stats(self) -> dict[str, Any]:
        return {"one": {"pool": {"max-concurrency": 2}}}

    def active(self) -> dict[str, Any]:
        self.held = {key: looks - 1 for key, looks in self.held.items() if looks > 0}
        return {"one": [{"id": key} for key in self.held]}

    def reserved(self) -> None:
        return None

    def send_task(self, name: str, arguments: tuple[str], task_id: str) -> Result:
        assert (name, arguments) == (remote_calls.TASK, (f"text of {task_id}",))
        self.sent[task_id] += 1
        return Result(self, task_id)

    def AsyncResult(self, key: str) -> Result:
        return Result(self, key)


class Result:
    """A call's result, available once it was sent more often than it is lost, and is not held."""

    def __init__(self, workers: Workers, key: str) -> None:
        self._workers, self._key = workers, key

    def ready(self) -> bool:
        workers = self._workers
        lost = workers.sent[self._key] <= workers.losses.get(self._key, 0)
        return not lost and not workers.held.get(self._key)

    def get(self, **_: object) -> None:
        raise NotYet

    def forget(self) -> None:
        """Keep nothing."""

    @property
    def result(self) -> dict[str, str]:
        return {"answer": f"answer to {self._key}"}


def carried_out(workers: Workers, keys: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the answers, checking the workers at every turn."""
    monkeypatch.setattr(remote_calls, "LOOK_EVERY", -1.0)
    calls = {key: f"text of {key}" for key in keys}
    found: Any = workers
    return dict(remote_calls._Calls(found, calls, lambda: 0).carried_out())


def test_a_call_that_no_worker_holds_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call has its answer; a call that a worker holds for long is not resent."""
    workers = Workers(losses={"b": 2}, held={"c": 5})
    answers = carried_out(workers, "abcdefgh", monkeypatch)
    assert answers == {key: f"answer to {key}" for key in "abcdefgh"}
    assert workers.sent == Counter("abcdefgh") + Counter("bb")


def test_a_call_that_costs_one_worker_after_the_other_ends_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fourth loss is an error: otherwise it would cost all workers."""
    workers = Workers(losses={"b": 99})
    with pytest.raises(RunError, match="3 workers were lost with one run"):
        carried_out(workers, "ab", monkeypatch)
    assert workers.sent["b"] == 1 + remote_calls.MOST_LOST


def test_calls_continue_during_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are polled in a thread: a poll that ends only after the last answer delays none."""
    answered, looks = threading.Event(), 0

    class SlowToTell(Workers):
        def stats(self) -> dict[str, Any]:
            nonlocal looks
            looks += 1
            assert looks == 1 or answered.wait(10), "the answers waited for the look"
            return super().stats()

    monkeypatch.setattr(remote_calls, "LOOK_EVERY", -1.0)
    found: Any = SlowToTell({})
    calls = remote_calls._Calls(found, {key: f"text of {key}" for key in "abcdefgh"}, lambda: 0)
    keys = set()
    for key, _ in calls.carried_out():
        keys.add(key)
        if len(keys) == 8:
            answered.set()
    assert keys == set("abcdefgh")
