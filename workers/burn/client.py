"""The burn server as a child of this process: started, sent requests, listened to, ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

PROGRAM = Path(__file__).with_name("server.py")
CLOSE_TIMEOUT = 2.0


class BurnerProgram:
    """One life of ``workers/burn/server.py``.

    A thread starts it, listens to it, and lives as long: Linux kills the program when the thread
    that started it ends, and a thread that only needs it first might end before its time.

    Args:
        settings: of the program.
        receive: given each answer, in that thread.
        ended: called once, in that thread: the program is gone, and how it ended.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        receive: Callable[[dict[str, object]], None],
        ended: Callable[[BurnerProgram, str], None],
    ) -> None:
        self._receive = receive
        self._ended = ended
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        words = json.dumps({**settings, "host": os.getpid()})
        threading.Thread(target=self._live, args=(words,), name="farm-burner", daemon=True).start()
        self._started.wait()

    @property
    def pid(self) -> int | None:
        """Its process id; None: it could not be started."""
        return None if self._process is None else self._process.pid

    def send(self, request: Mapping[str, object]) -> bool:
        """Send a request; False: it is known to be gone. Its end answers what it never read."""
        if self._process is None or self._process.stdin is None:
            return False
        data = json.dumps(request).encode() + b"\n"
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except (BrokenPipeError, ValueError):  # ended; closed
            return False
        return True

    def close(self) -> int:
        """Close its standard input, wait for its end, return its exit code."""
        process = self._process
        if process is None or process.stdin is None:
            return 0
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _live(self, settings: str) -> None:
        try:
            # isolated and without site: only the standard library, and half the time to start. A
            # process group, not a session: where the kernel shares out processors by session,
            # burners of a host must stay in one
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), settings],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            self._started.set()
            self._ended(self, f"the burner program cannot be started: {error.strerror}")
            return
        self._started.set()
        assert process.stdout is not None  # noqa: S101 - made with a pipe
        try:
            with process.stdout as answers:
                for line in answers:
                    self._receive(json.loads(line))
        finally:
            self._ended(self, f"the burner program ended with exit code {self.close()}")
