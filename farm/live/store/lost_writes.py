"""What only the server has for longer: what is remembered of it, and said if it is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from farm.core.commands import EndJob
from farm.live.redis.fence import LostWritesError
from farm.live.store.batch import MAX_LOG, Batch
from farm.units import many

#: jobs whose stories are kept for that; who ended earlier is on the disk of any server that saves
REMEMBERED = 20_000
#: ids that one line of the log names
NAMED = 20


class Recent:
    """What the last commits wrote: the stories of the jobs that ended last, ``ends`` among them.

    And the event log's lines until the disk has them.
    """

    def __init__(self, ends: Sequence[EndJob] = ()) -> None:
        self.ends = deque(ends, maxlen=max(REMEMBERED, len(ends)))
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=MAX_LOG)

    def add(self, commit: int, batch: Batch, on_disk: int) -> None:
        """Remember what a commit wrote; ``on_disk``: up to which commit the log is there."""
        self.ends.extend(batch.ended.values())
        if lines := batch.log.get(commit):
            self._lines.append((commit, lines))
        while self._lines and self._lines[0][0] <= on_disk:
            self._lines.popleft()

    def lines(self) -> dict[int, bytes]:
        """Return lines of the event log that may not be on disk, by their commits."""
        return dict(self._lines)


def named(jobs: Sequence[str]) -> str:
    """Return how many jobs these are, and the names of some."""
    names = ", ".join(jobs[:NAMED])
    more = f" and {len(jobs) - NAMED:,} more" if len(jobs) > NAMED else ""
    return many(len(jobs), "job") + (f" ({names}{more})" if jobs else "")


def message_of(error: LostWritesError, *, live: int, again: list[EndJob], ended: int) -> str:
    """Report what was lost, and the consequences.

    ``live``: jobs that have not ended; ``again``: ended ones whose stories are written once more;
    ``ended``: how many have ended in all.
    """
    ends = named([end.job.id for end in again])
    what = f"{error}: {live:,} live jobs are written anew, and the stories of {ends} that had ended"
    if error.keys:
        return what
    gone = ended - len(again)
    if error.commits is None and gone > 0:
        what += f"; those of {gone:,} jobs that ended earlier are gone"
    return f"{what}; submissions since its last save that had not been read are lost, too"
