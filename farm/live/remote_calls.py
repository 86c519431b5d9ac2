"""Calls that Celery workers carry out, on any number of machines; none is lost with a worker.

A call is a text with a key, its answer another text. A worker says at once that it has a call
(Celery's early acknowledgement), so one that is killed takes its calls with it: what no worker
holds, and no queue, is sent again. A call may be carried out twice; it must have the same answer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import redis
from celery import Celery
from celery.exceptions import TimeoutError as NotYet
from celery.exceptions import WorkerLostError
from celery.result import AsyncResult
from kombu.exceptions import OperationalError

from farm.core.errors import FarmError, RunError, ServerError
from farm.live.redis.connection import check_server, connect, redacted
from farm.live.settings import from_environment

QUEUE = "remote-calls"
TASK = "farm.remote_call"
#: calls that are sent ahead, for each process of the workers
AHEAD = 2
#: real seconds: between two looks at the workers, and without any worker until the calls fail
LOOK_EVERY = 2.0
PATIENCE = 30.0
#: workers that may be lost with one call
MOST_LOST = 3


def remote_app(url: str, prefix: str) -> Celery:
    """Return the Celery app of both sides; it connects when it is used."""
    kept = {"global_keyprefix": _key_prefix(prefix)}
    waits = {"socket_connect_timeout": 3, "socket_keepalive": True}
    app = Celery(QUEUE, broker=url, backend=url, set_as_current=False)
    app.conf.update(
        task_default_queue=QUEUE,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        result_expires=24 * 3600,
        result_backend_transport_options=kept,
        broker_transport_options={**kept, **waits, "visibility_timeout": 24 * 3600},
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    return app


def serve(app: Celery, answer: Callable[[str], str]) -> None:
    """Let the workers of this app answer calls; a FarmError is an answer, too."""

    def call(text: str) -> dict[str, str]:
        try:
            return {"answer": answer(text)}
        except FarmError as error:
            return {"error": str(error)}

    app.task(name=TASK)(call)


class _Crowd(NamedTuple):
    """The workers that are there: their processes, and the calls that they hold."""

    processes: int
    held: frozenset[str]


def call_all(url: str, calls: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each call's key and answer, as they come.

    Raises ServerError for a server that does not answer; RunError where no worker is, for what a
    worker refused, and for a call with which one worker after the other was lost.
    """
    prefix = from_environment().prefix
    app = remote_app(url, prefix)
    with contextlib.closing(connect(url, "farm-calls")) as client, contextlib.closing(app):
        check_server(client, url)

        def queued() -> int:
            return int(client.llen(f"{_key_prefix(prefix)}{QUEUE}"))

        try:
            yield from _Calls(app, calls, queued).carried_out()
        except (redis.RedisError, OperationalError) as error:
            raise ServerError(f"Redis at {redacted(url)}: {error}") from None


def _key_prefix(prefix: str) -> str:
    return f"{prefix}{QUEUE}:"


class _Calls:
    """What was sent and not answered, what is left to be sent."""

    def __init__(self, app: Celery, calls: Mapping[str, str], queued: Callable[[], int]) -> None:
        self._app = app
        self._queued = queued
        self._calls = calls
        self._left = deque(calls)
        self._sent: dict[str, AsyncResult[object]] = {}
        self._missing: set[str] = set()
        self._losses: Counter[str] = Counter()
        self._over = threading.Event()

    def carried_out(self) -> Iterator[tuple[str, str]]:
        crowd = self._crowd()
        with ThreadPoolExecutor(1) as aside, contextlib.ExitStack() as stack:
            stack.callback(self._over.set)
            look = aside.submit(self._crowd, LOOK_EVERY)
            while self._left or self._sent:
                while self._left and len(self._sent) < AHEAD * crowd.processes:
                    self._send(self._left.popleft())
                oldest = next(iter(self._sent.values()))
                with contextlib.suppress(NotYet):
                    oldest.get(timeout=0.5, propagate=False)
                yield from self._answers()
                if look.done():
                    crowd = look.result()
                    self._send_again(crowd)
                    look = aside.submit(self._crowd, LOOK_EVERY)

    def _send(self, key: str) -> None:
        found = self._app.AsyncResult(key)
        found.forget()  # of an earlier sending of the same call
        self._sent[key] = self._app.send_task(TASK, (self._calls[key],), task_id=key)

    def _answers(self) -> Iterator[tuple[str, str]]:
        for key in [key for key, sent in self._sent.items() if sent.ready()]:
            sent = self._sent.pop(key)
            found = sent.result
            sent.forget()
            if isinstance(found, WorkerLostError):
                self._lost([key])
            elif isinstance(found, dict) and "answer" in found:
                yield key, found["answer"]
            else:
                raise RunError(found["error"] if isinstance(found, dict) else f"worker: {found}")

    def _send_again(self, crowd: _Crowd) -> None:
        """Send what was missing at two looks: nothing is on its way for so long."""
        missing = set(self._sent) - crowd.held
        if not missing or self._queued():
            self._missing = set()
            return
        gone = [key for key in missing & self._missing if not self._sent[key].ready()]
        self._missing = missing - set(gone)
        self._lost(gone)

    def _lost(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._losses[key] += 1
            if self._losses[key] > MOST_LOST:
                raise RunError(f"{MOST_LOST} workers were lost with one run: is memory short?")
            self._send(key)

    def _crowd(self, after: float = 0.0) -> _Crowd:
        """Ask the workers (it takes seconds), repeatedly if none answers; stop when all is over."""
        self._over.wait(after)
        until = time.monotonic() + PATIENCE
        ask = self._app.control.inspect(timeout=1.0)
        while not (stats := ask.stats()):
            if self._over.is_set():
                return _Crowd(0, frozenset())
            if time.monotonic() > until:
                raise RunError(
                    f"no worker has answered for {PATIENCE:.0f}s; start one: "
                    "FARM_REDIS_URL=… celery -A farm.app.sweeps.worker worker"
                )
        # in this order, as calls move; those who are named are not waited for once they answer
        ask = self._app.control.inspect(list(stats), timeout=1.0)
        held = [*(ask.reserved() or {}).values(), *(ask.active() or {}).values()]
        return _Crowd(
            sum(one["pool"]["max-concurrency"] for one in stats.values()),
            frozenset(task["id"] for tasks in held for task in tasks),
        )
