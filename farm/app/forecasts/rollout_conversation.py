"""The conversation with the process that makes a live farm's rollouts, from another thread."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

import msgspec

from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.dispatch.at_submission import Forecast
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.processes.module_command import module_command

#: after a request the process rests as long as that took, but no longer than this (real seconds)
MAX_REST = 2.0
#: real seconds for which the end of the thread is waited for
CLOSE_TIMEOUT = 2.0
#: real seconds after which a process that has not replied is ended
REPLY_TIMEOUT = 60.0


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A farm, and the jobs that are asked about; what is None is as in the last request."""

    snapshot: FarmSnapshot
    jobs: tuple[str, ...]
    rollouts: int
    #: the resolved scenario, and the name of the runtime estimator
    scenario: dict[str, object] | None = None
    run_times: str = ""
    #: the dump of the runtime estimator
    statistics: dict[str, object] | None = None
    #: what arrived lately, where what arrives later can matter
    recent: RecentArrivals | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The forecasts of a request's jobs, in order."""

    forecasts: tuple[Forecast, ...] = ()
    #: of how many rollouts
    rollouts: int = 0
    #: real seconds that it took
    took: float = 0.0
    #: why there are none
    trouble: str = ""


class RolloutProcess:
    """The process that rolls out: requests in, replies out, a line each."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id; None: it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; raises OSError if that is impossible."""
        self._process = subprocess.Popen(
            module_command("farm.app.forecasts.rollout_process", str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def reply(self, line: bytes) -> bytes:
        """Return the reply to a request; raises OSError if there is none."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise BrokenPipeError
        # one that is stopped never answers, nor reads
        watchdog = threading.Timer(REPLY_TIMEOUT, process.kill)
        watchdog.start()
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not answer:
            raise BrokenPipeError(f"it ended with exit code {process.wait()}")
        return answer

    def close(self) -> None:
        """End it: it has nothing to lose; another thread may call this."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class RolloutConversation:
    """Passes requests to the process, one after the other, and replies back.

    The scheduler's thread sends and takes; a thread of this object waits for the process.
    """

    def __init__(self) -> None:
        self.program = RolloutProcess()
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        #: set while the process takes no request
        self._busy = threading.Event()
        #: called by the other thread when there is a reply, and when a request is taken again
        self.wake: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start the process, if it was not: it takes a second or so to come up."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._converse, name="farm-rollouts", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the process."""
        self._closed.set()
        self._requests.put(None)
        self.program.close()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT)
            self.program.close()  # it was about to start

    @property
    def is_closed(self) -> bool:
        """Whether the process was ended from here."""
        return self._closed.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether the process works on a request, or rests from one."""
        return self._busy.is_set()

    def send(self, request: Request) -> None:
        """Pass a request on; none may be sent while it is busy."""
        self._busy.set()
        self._requests.put(msgspec.json.encode(request))

    def reply(self) -> Reply | None:
        """Return the reply to the last request, once; None: there is none yet."""
        with suppress(queue.Empty):
            return self._replies.get_nowait()
        return None

    def _converse(self) -> None:
        decoder = msgspec.json.Decoder(Reply)
        with suppress(OSError):  # the first request says so
            self.program.start()
        while (request := self._requests.get()) is not None:
            try:
                reply = decoder.decode(self.program.reply(request))
            except (OSError, msgspec.MsgspecError) as error:
                reply = Reply(trouble=f"the process that makes rollouts: {error}")
            self._replies.put(reply)
            self.wake()
            self._closed.wait(min(MAX_REST, reply.took))
            self._busy.clear()
            self.wake()
