"""The state file of ``farm up``, and connections to its farm."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from farm.core.errors import InputError, ServerError
from farm.live.settings import DEFAULT_PREFIX, from_environment
from farm.processes.identity import is_alive
from farm.whole_files import draft_of, read_whole

if TYPE_CHECKING:  # Redis, for which there may be no farm
    from farm.live.operating.client import FarmClient

log = logging.getLogger("farm.up")

#: real seconds after which it is tried again to say where the farm is
TRY_AGAIN = 1.0


class FarmPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The state file of ``farm up``: where its farm is (DIR/farm.json)."""

    #: of the process that keeps the farm up, and when it began (guards against reused ids)
    pid: int
    began: str
    redis_url: str
    prefix: str = DEFAULT_PREFIX
    scenario: str = ""
    speed: float = 1.0
    #: starting, up, stopping
    state: str = "starting"
    #: what the server had lost of an earlier farm here, and what was restored; empty: nothing
    restored: str = ""


def place_file(folder: Path) -> Path:
    """Return where the state of the folder's farm is written."""
    return folder / "farm.json"


def targets_of(folder: Path) -> Path:
    """Return where the processes of the folder's farm say where they serve metrics."""
    return folder / "targets"


class PlaceFile:
    """Says where the folder's farm is, as soon as the disk takes it.

    To end on a full disk would end the server, and lose what that has not written yet.
    """

    def __init__(self, folder: Path, place: FarmPlace) -> None:
        self._path = place_file(folder)
        self._place = place
        self._is_written = True
        #: it has been there once
        self._was_there = False

    def update(self, **changes: str) -> None:
        """Write the place with these fields changed."""
        self._place = msgspec.structs.replace(self._place, **changes)
        self._write()

    def retry(self) -> float:
        """Write what could not be written, or was removed; return when to try again (seconds).

        Without the file no command finds the farm, and nothing but a signal ends it.
        """
        if self._is_written and self._was_there and not self._path.exists():
            log.warning("%s was removed: written again", self._path)
            self._is_written = False
        if not self._is_written:
            self._write()
        return float("inf") if self._is_written else TRY_AGAIN

    def _write(self) -> None:
        try:
            with draft_of(self._path) as draft:
                draft.touch(mode=0o600)
                draft.write_bytes(msgspec.json.encode(self._place))
        except OSError as error:
            if self._is_written:
                log.error("%s cannot be written: %s; tried again until it can", self._path, error)
            self._is_written = False
        else:
            self._is_written = self._was_there = True


def read_place(folder: Path) -> FarmPlace | None:
    """Return where the folder's farm is; None: none was started there."""
    path = place_file(folder)
    try:
        return msgspec.json.decode(read_whole(path), type=FarmPlace)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise InputError(f"--dir: found {folder}, a file; allowed: a folder") from None
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); farm up writes it again") from None


def reach(redis: str | None, folder: Path) -> FarmClient:
    """Return a connection to the farm at the URL, else to the one that farm up started.

    Raises InputError if there is neither.
    """
    if redis:
        return _client(redis, from_environment().prefix)
    place = read_place(folder)
    if place is None:
        raise ServerError(
            f"no farm is running here ({place_file(folder)} does not exist): start one with "
            "farm up SCENARIO, or name its server with --redis URL or FARM_REDIS_URL"
        )
    if not is_alive(place.pid, place.began):
        raise ServerError(
            f"the farm in {folder} is not running (it ended without saying so; log: "
            f"{folder / 'farm.log'}): farm up SCENARIO continues it"
        )
    return _client(place.redis_url, place.prefix)


def _client(url: str, prefix: str) -> FarmClient:
    from farm.live.operating.client import FarmClient  # noqa: PLC0415 - Redis, where a farm may be

    return FarmClient(url, prefix)


def check_fair_share(client: FarmClient, option: str) -> None:
    """Raise InputError, which names the option, for a farm without fair share."""
    if not client.status().fair_share:
        raise InputError(
            f"{option}: found a farm without fair share; allowed: one with scheduling.fair_share"
        )
