"""The event log of a farm that stays up: from the stream that commits fill into a file on disk.

Commits append lines to a Redis stream, and a thread moves them on into ``events.jsonl``. The file
``position`` says up to which commit that has them. So each line is in the log exactly once,
whatever is killed, and lines that were never committed are not in it. Lines that someone has
deleted from the stream are noticed, as each entry names the commit before it. The scheduler's
thread and this one (the *drain*) do that together:

===========================  =======================================================================
when                         who does what
===========================  =======================================================================
a commit has lines           scheduler: appends them in the commit's transaction, with its number
                             and that of the last one before it that had lines; remembers them until
                             they are on the disk (``Recent``); says ``expect`` and ``wake``
the drain is woken           drain: writes entries to the file while each follows the one before it,
                             passes over those that are there already, then writes ``position`` and
                             trims the stream
an entry follows one that    drain: does not write it, nor trims the stream, and shows in ``gap``
is missing, or an expected   what the last commit on the disk is
one is not there
the scheduler sees ``gap``   scheduler: appends all that it remembers of later commits once more
(after a commit, and in its  (``Store.write_log_again``), says ``refilled``, and notes that it was
regular look at all keys)    lost (``Commits._look_at_log``)
the drain was ``refilled``   drain: writes what is there now, in the order of commits. What is still
                             missing is lost: ``Position.lost`` says which commits wrote it
the scheduler ends           drain: moves the rest, for ``AWAY_TIMEOUT`` if that fails
another scheduler starts     its drain waits for the folder's lock, then cuts the file off there
===========================  =======================================================================

Missing lines go over the stream once more, and not from the scheduler's memory into the file,
because only the server knows whether this scheduler is still in charge.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO, Self

import msgspec
import redis

from farm.core.errors import InputError
from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import UNREADABLE, Keys, after
from farm.processes.locks import locked
from farm.whole_files import draft_of, read_whole

log = logging.getLogger("farm.scheduler")

EVENTS, OLDER, POSITION, LOCK = "events.jsonl", "events.1.jsonl", "position", "lock"
#: a log that has grown beyond this is put aside, in the place of the one before it
MAX_BYTES = 512 * 1024 * 1024
#: entries moved per step: one answer of the server, each with up to some hundred kilobytes
AT_ONCE = 50
#: real seconds after a failure, and at most in which more lines are waited for: a server whose
#: data and whose scheduler are lost together loses what was committed in that time
WAIT = 0.5
#: moving takes at most this share of the time of a processor (1/SHARE)
SHARE = 20
#: real seconds for what is still to be moved at the end, as by a slow disk
END_TIMEOUT = 10.0
#: … and for a server or disk that fails just then: a farm's own server is started again
AWAY_TIMEOUT = 3.0


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """Up to which of the farm's commits the disk has the log, and the bytes of the file then."""

    commits: int = 0
    size: int = 0
    #: release 0.2 named the stream's last entry that is on the disk instead of a commit
    entry: str = "0-0"
    #: commits whose lines are lost: after the first of two numbers, up to the other one
    lost: tuple[tuple[int, int], ...] = ()

    @property
    def lost_in_words(self) -> str:
        """What the log lacks; empty if nothing."""
        spans = [f"{after + 1:,} to {until:,}" for after, until in self.lost]
        return f"it lacks what commits {', '.join(spans)} wrote" if spans else ""


def position_in(folder: Path) -> Position:
    """Return where the log of this folder stands; raises InputError, OSError."""
    try:
        return msgspec.json.decode(read_whole(folder / POSITION), type=Position)
    except FileNotFoundError:
        return Position()  # a fresh farm
    except UNREADABLE as error:
        raise InputError(f"{folder / POSITION}: garbled: {error}") from None


class LogDrain:
    """The drain: it moves the log while its ``with`` block lasts, and tries again what fails.

    Another one for the same folder waits until this one's process is gone.
    """

    def __init__(self, url: str, keys: Keys, folder: Path) -> None:
        self._client: Connection = connect(url, "farm-log")
        self._key = keys.log
        self._folder = folder
        self._position = Position()
        #: the last commit that has put lines into the stream
        self._expected = 0
        #: the last commit on the disk, if the stream does not have the lines that follow
        self._gap: int | None = None
        #: the scheduler has put again what it remembers
        self._is_refilled = False
        self._file: BinaryIO | None = None
        #: the last line of the scheduler's log about it, and why it cannot be written now
        self._last_warning = ""
        self._trouble = ""
        self._stop = threading.Event()
        #: there may be something in the stream, or the end was requested
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def wake(self) -> None:
        """Move what is in the stream soon; callable from any thread."""
        self._news.set()

    def __exit__(self, *_: object) -> None:
        """Move what is still in the stream, if that can be done soon, and end."""
        self._stop.set()
        self._news.set()
        self._thread.join(END_TIMEOUT)
        self._client.close()

    @property
    def commits(self) -> int:
        """Up to which of the farm's commits the disk has the log."""
        return self._position.commits

    @property
    def trouble(self) -> str:
        """Why the log cannot be written; empty: it can, or the server is in trouble."""
        return self._trouble

    @property
    def lost_in_words(self) -> str:
        """What the log lacks; empty: nothing."""
        return self._position.lost_in_words

    def expect(self, commit: int) -> None:
        """Note that this commit has put lines into the stream; called by the scheduler's thread."""
        self._expected = commit

    @property
    def gap(self) -> int | None:
        """The last commit on the disk, while lines that follow have to be appended once more."""
        return None if self._is_refilled else self._gap

    def refilled(self) -> None:
        """Take what is in the stream now for all there is; called by the scheduler's thread."""
        self._is_refilled = True
        self.wake()

    def _run(self) -> None:
        with contextlib.ExitStack() as stack:
            has_it = self._take_lock(stack)
            while not has_it and not self._stop.wait(WAIT):
                has_it = self._take_lock(stack)
            # an earlier scheduler that ends may not have moved it all
            # (what it holds is moved in the other half of the time)
            if not has_it and not self._take_lock(stack, END_TIMEOUT / 2):
                return
            self._trouble = ""
            while not self._stop.is_set():
                self._news.clear()
                began = time.thread_time()
                moved = self._try_to_move()
                pause = SHARE * (time.thread_time() - began) if moved else WAIT
                if moved and not self._stop.is_set():
                    self._news.wait()
                self._stop.wait(min(pause, WAIT))
            give_up_at = time.monotonic() + AWAY_TIMEOUT
            while not self._try_to_move() and time.monotonic() < give_up_at:
                time.sleep(WAIT)
            self._close()

    def _take_lock(self, stack: contextlib.ExitStack, timeout: float = 0.0) -> bool:
        try:
            stack.enter_context(locked(self._folder / LOCK, timeout))
        except BlockingIOError:
            self._trouble = "another process still writes it (an earlier scheduler, paused?)"
            return False
        except OSError as error:
            self._say_unwritable(error)
            return False
        return True

    def _try_to_move(self) -> bool:
        try:
            self._move()
        except (OSError, InputError, redis.RedisError) as error:
            self._close()  # what of it reached the disk is only known by the position
            self._say_unwritable(error)
            return False
        self._trouble = ""
        self._say("")
        return True

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk does not take what it still holds
                self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        """Return the log, opened if it is not, and cut off after its position."""
        if self._file is None:
            self._position = position_in(self._folder)
            self._file = (self._folder / EVENTS).open("ab")
            self._file.truncate(min(self._position.size, self._file.tell()))
            # truncating leaves the file object where it was, beyond the new end
            self._file.seek(0, os.SEEK_END)
        return self._file

    def _move(self) -> None:
        # what was expected before the stream is read must be in it
        expected, is_refilled = self._expected, self._is_refilled
        unconnected, last_entry = self._move_what_follows()
        commits = self._position.commits
        left = {number: name for number, name in sorted(unconnected.items()) if number > commits}
        is_missing_some = bool(left) or expected > commits
        if is_missing_some and not is_refilled:
            self._gap = commits
            return
        if is_missing_some:
            self._move_with_gaps(left, expected)
        if unconnected:
            self._trim(last_entry)
        self._gap = None
        self._is_refilled = False

    def _move_what_follows(self) -> tuple[dict[int, str], str]:
        """Write the entries that follow what is on the disk, up to the stream's end.

        Returns those before which lines are missing, by their commits, and the last entry read.
        """
        unconnected: dict[int, str] = {}
        file = self._opened()
        entry = self._position.entry  # what is on disk is removed there
        while answer := self._client.xread({self._key: entry}, count=AT_ONCE):
            commits = self._position.commits
            for name, fields in answer[0][1]:
                entry, number = name.decode(), int(fields.get(b"n", commits + 1))
                # a server that had lost commits may have got their lines twice
                if number <= commits:
                    continue
                if int(fields.get(b"p", 0)) > commits:
                    unconnected[number] = entry
                    continue
                file.write(fields.get(b"l", b""))
                commits = number
            self._sync(file, commits)
            if not unconnected:
                self._trim(entry)
            file = self._opened()  # a log that has grown too large was put aside
        return unconnected, entry

    def _move_with_gaps(self, entries: dict[int, str], expected: int) -> None:
        """Move these entries, by their commits; the lines between them are lost."""
        file = self._opened()
        commits = self._position.commits
        lost = list(self._position.lost)
        for number, name in entries.items():
            for _, fields in self._client.xrange(self._key, name, name):
                before = int(fields.get(b"p", 0))
                if before > commits:
                    lost.append((commits, before))
                file.write(fields.get(b"l", b""))
                commits = number
        if expected > commits:
            lost.append((commits, expected))
            commits = expected
        log.error(
            "the event log in %s is not whole: what is lost was deleted on the Redis server "
            "before it was moved (commits after %s)",
            self._folder,
            ", ".join(f"{after:,} up to {until:,}" for after, until in lost),
        )
        self._sync(file, commits, tuple(lost))

    def _sync(
        self, file: BinaryIO, commits: int, lost: tuple[tuple[int, int], ...] | None = None
    ) -> None:
        file.flush()
        os.fsync(file.fileno())
        if lost is None:
            lost = self._position.lost
        # the size that the file has, not the one that follows from what was written
        position = Position(commits, os.fstat(file.fileno()).st_size, lost=lost)
        self._keep(position)
        if position.size > MAX_BYTES:
            # killed in between, the next one finds no log, and the position's commits still hold
            (self._folder / EVENTS).replace(self._folder / OLDER)
            self._keep(Position(commits))
            self._close()

    def _trim(self, entry: str) -> None:
        """Remove what is on disk from the stream, up to this entry."""
        self._client.xtrim(self._key, minid=after(entry), approximate=False)

    def _keep(self, position: Position) -> None:
        with draft_of(self._folder / POSITION) as draft, draft.open("wb") as file:
            file.write(msgspec.json.encode(position))
            file.flush()
            os.fsync(file.fileno())
        self._position = position

    def _say_unwritable(self, error: Exception) -> None:
        self._trouble = "" if isinstance(error, redis.RedisError) else str(error)
        self._say(f"the event log in {self._folder} cannot be written: {error}")

    def _say(self, line: str) -> None:
        if line != self._last_warning:
            log.warning("%s", line or f"the event log in {self._folder} is written again")
            self._last_warning = line
