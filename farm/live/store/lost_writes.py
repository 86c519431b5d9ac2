"""Restores writes that a server has lost, from the scheduler's state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from farm.core.commands import EndJob
from farm.live.redis.fence import LostWritesError, SpoiltError

#: jobs whose stories are kept for that; who ended earlier is on the disk of any server that saves
REMEMBERED = 20_000
#: ids that one line of the log names
NAMED = 20


class RecentEnds:
    """The stories of the jobs that ended last: only the server has them for longer."""

    def __init__(self) -> None:
        self._ends: deque[tuple[int, EndJob]] = deque(maxlen=REMEMBERED)

    def add(self, commit: int, ends: Iterable[EndJob]) -> None:
        """Remember what a commit said; commits are counted by the fence."""
        self._ends.extend((commit, end) for end in ends)

    def lost(self, error: LostWritesError, commits: int) -> list[EndJob]:
        """Return those that the server has lost, given the farm's number of commits."""
        kept = 0 if error.commits is None else commits - error.commits
        return [end for commit, end in self._ends if commit > kept]


def told(error: LostWritesError, *, live: int, again: list[EndJob], ended: int) -> str:
    """Report what was lost, and the consequences.

    ``live``: jobs that have not ended; ``again``: ended ones whose stories are written once more;
    ``ended``: how many have ended in all.
    """
    names = ", ".join(end.job.id for end in again[:NAMED])
    more = f" and {len(again) - NAMED:,} more" if len(again) > NAMED else ""
    what = f"{error}: {live:,} live jobs are written anew, and the stories of {len(again):,} ended"
    what += f" ({names}{more})" if again else ""
    gone = ended - len(again)
    if error.commits is None and gone > 0:
        what += f"; those of {gone:,} jobs that ended earlier are gone"
    if isinstance(error, SpoiltError):
        return what
    return f"{what}; submissions since its last save that had not been read are lost, too"
