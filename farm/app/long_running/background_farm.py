"""A farm in a background process: started, found, ended (``farm up``, ``farm down``)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from farm.app.long_running.farm_place import FarmPlace, place_file, read_place, targets_of
from farm.core.errors import FarmError, InputError, RunError, ServerError
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import redacted
from farm.metrics.targets import forget_targets
from farm.processes import locks
from farm.processes.identity import is_alive
from farm.processes.log_files import last_line
from farm.processes.module_command import module_command

#: real seconds between two looks at a process that is not our child
LOOK_INTERVAL = 0.1
#: real seconds that a farm has to end in when its start is interrupted
STOP_TIMEOUT = 60.0


def end_farm(place: FarmPlace, *, now: bool, timeout: float | None) -> None:
    """Ask the farm to end (``now``: without waiting for jobs) and wait for its process.

    After ``timeout`` real seconds it is asked to end without waiting.
    """
    os.kill(place.pid, signal.SIGINT if now else signal.SIGTERM)
    deadline = None if timeout is None else time.monotonic() + timeout
    while is_alive(place.pid, place.began):
        if deadline is not None and time.monotonic() > deadline:
            os.kill(place.pid, signal.SIGINT)
            deadline = None
        time.sleep(LOOK_INTERVAL)


def place_to_end(folder: Path) -> FarmPlace:
    """Return where the farm of the folder is.

    Raises ServerError if none was started there, RunError if it has ended without saying so.
    """
    place = read_place(folder)
    if place is None:
        raise ServerError(f"no farm is running here: {place_file(folder)} does not exist")
    if not is_alive(place.pid, place.began):
        place_file(folder).unlink(missing_ok=True)
        forget_targets(targets_of(folder))
        raise RunError(
            f"the farm in {folder} had ended already without saying so (log: {folder / 'farm.log'})"
        )
    return place


def count_running(place: FarmPlace) -> int:
    """Return how many jobs run; 0 if that is not known."""
    with contextlib.suppress(FarmError), FarmClient(place.redis_url, place.prefix) as client:
        return client.count_running()
    return 0


def _readable_place(folder: Path) -> FarmPlace | None:
    """Return where the folder's farm is; what a power cut left of the file says nothing."""
    with contextlib.suppress(InputError):
        return read_place(folder)
    return None


def refuse_second(folder: Path) -> None:
    """Raise ServerError if a farm is up in the folder."""
    place = _readable_place(folder)
    if place is not None and is_alive(place.pid, place.began):
        raise ServerError(
            f"a farm is up in {folder} already (process {place.pid}, at "
            f"{redacted(place.redis_url)}): farm down ends it; another one needs another --dir"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder: two farms that come up at the same moment do not share it."""
    with contextlib.ExitStack() as stack:
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o700)
            stack.enter_context(locks.locked(folder / "lock"))
        except BlockingIOError:
            raise ServerError(f"a farm is coming up, or going down, in {folder}") from None
        except OSError as error:
            raise InputError(f"--dir: cannot use {folder}: {error.strerror}") from None
        yield


def start_in_background(
    scenario: Path, redis: str | None, folder: Path, options: list[str]
) -> FarmPlace:
    """Start ``farm up --foreground`` as a background process; return its place once it is up.

    Raises the process's last message if it ended instead.
    """
    command = module_command("farm", "up", str(scenario), "--foreground")
    # the URL may hold a password: not for the list of processes
    environment = os.environ | ({"FARM_REDIS_URL": redis} if redis else {})
    path = folder / "farm.log"
    path.touch(mode=0o600)
    with path.open("ab") as sink:
        before = sink.tell()
        process = subprocess.Popen(
            [*command, f"--dir={folder}", *options],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        return _wait_until_up(process, folder, before)
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT)
        raise


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path, before: int) -> FarmPlace:
    """Wait until it is up, or has ended: it knows itself how long that may take."""
    while process.poll() is None:
        place = _readable_place(folder)
        if place is not None and place.pid == process.pid and place.state == "up":
            return place
        time.sleep(LOOK_INTERVAL)
    words = last_line(folder / "farm.log", before).removeprefix("error: ")
    kind = ServerError if process.returncode == ServerError.exit_code else RunError
    raise kind(words)
