"""The burner program as a child of this process: started, told, listened to, buried."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("server.py")
CLOSE_TIMEOUT = 2.0

Answer = dict[str, Any]


class BurnerProgram:
    """One life of ``workers/burn/server.py``.

    A thread starts it, listens to it, and lives as long: Linux kills the program when the thread
    that started it ends, and the thread of whoever needs it first might end before its time.

    Args:
        settings: of the program.
        hear: told each answer, in that thread.
        ended: told once, in that thread, that the program is gone, and how it ended.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        hear: Callable[[Answer], None],
        ended: Callable[[BurnerProgram, str], None],
    ) -> None:
        self._hear = hear
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

    def send(self, request: Mapping[str, Any]) -> None:
        """Tell it something; what it cannot hear any more its end will answer."""
        if self._process is None or self._process.stdin is None:
            return
        data = json.dumps(request).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ValueError):  # ended; closed
            while data:
                data = data[self._process.stdin.write(data) :]

    def close(self) -> None:
        """Let it see that we are done with it, and wait for its end."""
        if self._process is not None:
            _bury(self._process)

    def _live(self, settings: str) -> None:
        try:
            process = self._process = launch(PROGRAM, settings)
        except OSError as error:
            self._started.set()
            self._ended(self, f"the burner program cannot be started: {error.strerror}")
            return
        self._started.set()
        try:
            self._listen(process)
        finally:
            code = _bury(process)
            self._ended(self, f"the burner program ended with exit code {code}")

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - made with a pipe
        with process.stdout as answers:
            for line in answers:
                self._hear(json.loads(line))


def launch(program: Path, settings: str) -> subprocess.Popen[bytes]:
    """Start a program of this folder, with pipes to talk to it."""
    # isolated and without site: only the standard library, and half the time to start. A process
    # group, not a session: where the kernel shares out processors by session, burners of a host
    # must stay in one
    return subprocess.Popen(  # noqa: S603 - our own interpreter and program, no shell
        [sys.executable, "-I", "-S", str(program), settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        process_group=0,
    )


def _bury(process: subprocess.Popen[bytes]) -> int:
    """Let the program see that we are done with it, wait for its end, return its exit code."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(CLOSE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return process.returncode
