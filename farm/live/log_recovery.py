"""A farm whose server has less than its event log: restored from that.

A server whose data were removed, or are those of an earlier time, knows nothing of what it has
lost. But commits are counted, and the log says how many of them it has on disk. Its events lead a
fresh scheduler to the state that the farm had then.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from farm.core.commands import EndJob, RequestBuilder
from farm.core.errors import InputError, ServerError
from farm.core.events import JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import builder_record, job_record, trees_of
from farm.live.commits import counts_of, named
from farm.live.live_options import Stays
from farm.live.protocol.roster import BuilderRequests
from farm.live.redis.keys import Cursor
from farm.live.redis.leader_fencing import Fence
from farm.live.redis.trouble import ServerCalls
from farm.live.store.log_drain import EVENTS, LOCK, OLDER, Position, position_in
from farm.live.store.saved import FarmReader, SavedFarm, SchedulerMemory, statistics_of
from farm.live.store.store import Store
from farm.processes.locks import locked
from farm.results.log.reader import Entry, read_log
from farm.results.log.replay import replay
from farm.units import many

log = logging.getLogger("farm.scheduler")

#: ended jobs that are restored: as many as a farm keeps by default
MAX_ENDED = 100_000
#: real seconds for an earlier scheduler, whose farm was killed, to let go of the log
LET_GO_WITHIN = 15.0


class RecoveredFarm(msgspec.Struct, frozen=True):
    """A farm as its event log has it, up to a commit, and the jobs that had ended."""

    farm: SavedFarm
    ends: list[EndJob]
    commits: int
    #: how many commits the server had lost
    ahead: int

    @property
    def words(self) -> str:
        """What the server had lost, and what is restored of it, for people."""
        return (
            f"the Redis server had lost {many(self.ahead, 'commit')} of this farm: "
            f"{many(len(self.farm.jobs), 'job')} that had not ended and the records of "
            f"{len(self.ends):,} that had are restored from the event log; "
            "submissions that had not been read are lost"
        )


def ahead_of(folder: Path, commits: int) -> int:
    """Return how many commits the log of this folder has beyond a server's.

    Raises ServerError if that is not known.
    """
    try:
        return max(0, position_in(folder).commits - commits)
    except (OSError, InputError) as error:
        raise ServerError(
            f"whether the event log in {folder} has commits of this farm that the Redis server has "
            f"lost is not known ({error}): mend that, or go on with what the server has "
            "(--accept-loss; the log is kept under another name)"
        ) from None


def set_aside(folder: Path, commits: int) -> str:
    """Keep a log that goes beyond a server's commits, or may do so, under another name.

    Returns what is lost with it; empty: nothing.
    """
    count = "unknown"
    with contextlib.suppress(ServerError):
        if not (ahead := ahead_of(folder, commits)):
            return ""
        count = f"{ahead:,}"
    number = 1
    while (name := folder.with_name(f"{folder.name}.lost-{number}")).exists():
        number += 1
    folder.rename(name)
    words = (
        f"{count} commits of this farm that the Redis server has lost are lost: the event log that "
        f"has them is kept as {name}"
    )
    log.error("%s", words)
    return words


def recovered(
    store: Store, reader: FarmReader, fence: Fence, call: ServerCalls, speed: float, stays: Stays
) -> RecoveredFarm | None:
    """Return the farm as its event log has it; None: the server has all of that, or is to have.

    Raises ServerError if the server has lost what cannot be restored.
    """
    if stays.make_scheduler is None or stays.fresh:
        return None
    folder, commits = stays.log_folder, fence.commits
    if stays.accept_loss:
        set_aside(folder, commits)
    if not (ahead := ahead_of(folder, commits)):
        return None
    cursor = call(reader.cursor)

    def known(names: list[str]) -> Collection[str]:
        return call(lambda: store.known(names))

    return recover(folder, ahead, stays.make_scheduler, speed, cursor, known)


def recover(
    folder: Path,
    ahead: int,
    make: Callable[[], Scheduler],
    speed: float,
    cursor: Cursor,
    known: Callable[[list[str]], Collection[str]],
) -> RecoveredFarm:
    """Return the farm of this log; ``make`` returns a fresh scheduler of it.

    ``ahead``: how many commits the server has lost; ``cursor``: how far its streams were read;
    ``known``: which of these jobs it still has. Raises ServerError if the log cannot lead there.
    """
    replay = _Replay(make())
    commits = f"{ahead:,} commits of this farm that the Redis server has lost"
    lead = f"the event log in {folder} has {commits}"
    try:
        with locked(folder / LOCK, LET_GO_WITHIN):
            position = position_in(folder)
            replay.play(folder, position)
    except BlockingIOError:
        raise ServerError(
            f"{lead}, and another scheduler still writes it (one that is paused, or was cut off "
            "from the server): end that one first"
        ) from None
    except (OSError, InputError) as error:
        still = known(list(replay.live))
        lost = [name for name in replay.live if name not in still]
        raise ServerError(
            f"{lead}, and the farm cannot be restored from it ({error}): give the server its data "
            "back, or go on with what it has (--accept-loss; the log is kept under another name), "
            f"without {named(lost)}"
        ) from None
    log.error("%s: it is restored from there", lead)
    farm = replay.saved(speed, cursor, position.commits)
    return RecoveredFarm(farm, list(replay.ends), position.commits, ahead)


class _Replay:
    """Leads a fresh scheduler through a log."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._at = 0.0
        self._outcomes: Counter[str] = Counter()
        self.ends: deque[EndJob] = deque(maxlen=MAX_ENDED)
        #: the jobs that have not ended
        self.live: dict[str, None] = {}

    def play(self, folder: Path, position: Position) -> None:
        """Handle all events; raises InputError for a log that leads elsewhere, OSError."""
        path, trouble = folder / EVENTS, position.lost_in_words
        if (size := path.stat().st_size) < position.size:
            trouble = f"it has {size:,} bytes of {position.size:,}"
        if (folder / OLDER).exists():
            trouble = "it has lost its beginning"
        with path.open("ab") as file:
            file.truncate(min(size, position.size))
        entries = self._noted(read_log(path))
        if not trouble and (difference := replay(entries, self._scheduler)) is not None:
            trouble = f"by line {difference.line} the scenario was another one"
        if trouble:
            deque(entries, maxlen=0)  # what would be lost is known at the end
            raise InputError(trouble)

    def _noted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            event, self._at = entry.event, entry.event.at
            if isinstance(event, JobsSubmitted) and not entry.ignored:
                self.live.update((job.id, None) for job in event.jobs)
            for command in entry.commands:
                if isinstance(command, EndJob):
                    self.live.pop(command.job.id, None)
                    self.ends.append(command)
                    self._outcomes[command.outcome] += 1
            yield entry

    def saved(self, speed: float, cursor: Cursor, commits: int) -> SavedFarm:
        """Return the farm as an earlier scheduler would have saved it; no host is there."""
        scheduler, pools = self._scheduler, self._scheduler.pools.values()
        requests = BuilderRequests(list(scheduler.keeper.specs.values()), speed)
        for request in (one for pool in pools for one in pool.requested.values()):
            requests.request(RequestBuilder(request.builder))
        return SavedFarm(
            at=self._at,
            speed=speed,
            cursor=cursor,
            counts=counts_of(scheduler, scheduler.book.serial, self._outcomes),
            logged=commits,
            jobs={name: job_record(state) for name, state in scheduler.jobs.items()},
            builders={name: builder_record(state) for name, state in scheduler.builders.items()},
            wanted=requests.wanted,
            learned=SchedulerMemory(statistics_of(scheduler.estimator), trees_of(scheduler)),
        )
