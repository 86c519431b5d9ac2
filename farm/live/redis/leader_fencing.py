"""A deposed leader: the server refuses its writes, by a fencing token.

The token is the epoch: a scheduler that takes a farm in charge gets the next one. The server
carries out a transaction only if that epoch is still the farm's: what a scheduler sends that was
paused for longer than its lease is refused, whatever it believes. Commits are counted beside it. So
one whose answer was lost is known to have been made, and a server that came back without its last
writes is found out. The process in charge is named beside both, so that it is known after its lease
has expired, and that a server which had lost an epoch may give it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, NamedTuple

import redis

from farm.core.errors import RunError
from farm.live.redis.connection import Connection
from farm.live.redis.kept_connection import Command, KeptConnection
from farm.live.redis.keys import Keys
from farm.live.redis.trouble import is_spoilt, ours_or, trouble_of

#: an epoch, or a number of commits, beyond this was not counted by us
MAX_COUNT = 2**53
#: attempts if the watched connection breaks between two calls, before the error is raised
TRIES = 3


class WatchedKeys:
    """Keys that are watched and read together with the transaction before.

    Nothing is asked before a transaction: the server refuses it if a key has changed since the
    last one. Used from one thread at a time; it keeps a connection of the client's pool. ``reads``
    are the commands that read what decisions are based on.
    """

    def __init__(self, client: Connection, keys: Sequence[str], *reads: Command) -> None:
        self._client = client
        self._look: list[Command] = [("WATCH", *keys), *reads]
        self._connection = KeptConnection(client)
        #: the answers to the reads, while the keys are watched; None: they are not
        self._found: list[object] | None = None

    def read(self) -> list[Any]:
        """Return the answers to the reads: as of now, or of the end of the last transaction.

        None where a key holds what is not ours. Raises redis.RedisError.
        """
        if self._found is None:
            # of an earlier look something may have changed
            stale = [("UNWATCH",)] if self._connection.is_taken else []
            answers = self._connection.exchange([*stale, *self._look])
            self._found = self._checked(answers[len(stale) :])
        return self._found

    def carry_out(self, fill: Callable[[Connection], object]) -> tuple[list[str], list[Any]]:
        """Carry out what ``fill`` puts into a pipeline; return its keys and the answers.

        An answer may be an exception; the other commands are carried out all the same. Raises
        redis.WatchError if that must be decided anew, as a key has changed or the connection has
        broken since it was last used; redis.RedisError.
        """
        self.read()
        pipe = self._client.pipeline(transaction=True)
        fill(pipe)
        commands = [args for args, _ in pipe.command_stack]
        pipe.reset()
        self._found = None
        if not self._connection.is_open:  # connected anew, it would watch nothing
            raise redis.WatchError("the connection was closed")
        try:
            answers = self._connection.exchange([("MULTI",), *commands, ("EXEC",), *self._look])
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise redis.WatchError(f"the connection broke: {error}") from None
        done = answers[len(commands) + 1]
        with contextlib.suppress(redis.RedisError):  # the next look will show
            self._found = self._checked(answers[len(commands) + 2 :])
        if isinstance(done, Exception):
            raise next(answer for answer in answers if isinstance(answer, Exception))
        if done is None:
            raise redis.WatchError("a watched key has changed")
        return [str(args[1]) if len(args) > 1 else "" for args in commands], done

    def forget(self) -> None:
        """Read anew before the next transaction."""
        self._found = None

    def _checked(self, answers: Sequence[object]) -> list[object]:
        """Return the answers to the reads, without that to the watch."""
        for answer in answers:
            if isinstance(answer, Exception) and not is_spoilt(answer):
                raise answer
        return [None if isinstance(answer, Exception) else answer for answer in answers[1:]]


class DeposedError(RunError):
    """Another scheduler is in charge: this one must not write any more."""

    def __init__(self) -> None:
        super().__init__("another scheduler took this farm over: this one stops")


class LostWritesError(RunError):
    """The server has lost acknowledged writes: it was emptied, or restored from an older state.

    ``commits``: how many commits are lost; None: all, and everything else. ``keys``: only these,
    which hold what the farm never wrote; what else a transaction does was carried out.
    """

    def __init__(self, commits: int | None = None, keys: Sequence[str] = ()) -> None:
        found = "every key of this farm" if commits is None else f"the last {commits} commits"
        if keys:
            found = f"what was in {', '.join(keys)}: it is gone, or not as it was"
        super().__init__(f"the Redis server has lost {found}")
        self.commits, self.keys = commits, keys


class Charge(NamedTuple):
    """What the server says about who is in charge; zeros where none ever was.

    ``holder``: who took the farm last, as its lease says; empty once that one released it.
    """

    epoch: int = 0
    commits: int = 0
    holder: bytes = b""


class Standing(Enum):
    """How a writer stands to what the server says about who is in charge."""

    #: a later epoch, or this one of another holder: another process has taken the farm
    DEPOSED = auto()
    #: one commit more than was answered, and the last answer is missing: that commit was made
    COMMITTED_UNANSWERED = auto()
    #: an earlier epoch, or fewer commits: the server has lost acknowledged writes
    LOST_WRITES = auto()
    #: as this writer left it
    AS_EXPECTED = auto()


class Fence:
    """Guards one writer's transactions: each is made only where its ``Standing`` allows it.

    Args:
        client: writes over it.
        keys: of the farm.
        charge: as it was written when this writer took charge; None: no one ever did.
        renew: puts the renewal of the writer's lease into a transaction.
    """

    def __init__(
        self,
        client: Connection,
        keys: Keys,
        charge: Charge | None = None,
        renew: Callable[[Connection], object] = lambda _: None,
    ) -> None:
        self._client = client
        self._renew = renew
        self._key, self._lease = keys.fence, keys.lease
        self._watched = WatchedKeys(client, [self._key], ("HMGET", self._key, *Charge._fields))
        self.epoch, self.commits, self._holder = charge or Charge()
        #: whether the last commit may have been made without an answer
        self._in_doubt = False
        #: the server lacks what it acknowledged, until it is restored
        self.lost_writes = False

    def expect(self, commits: int) -> None:
        """Let the server have made this many: the next write finds those that it has lost."""
        self.commits = commits

    def write(self, fill: Callable[[Connection], object], *, commit: bool = False) -> list[Any]:
        """Carry out a transaction that ``fill`` fills, completely or not at all.

        ``commit``: it is counted, so that it is made only once even if it is repeated. Returns the
        answers; none to a commit that had been made without them.

        Raises DeposedError, LostWritesError, redis.RedisError.
        """
        for _ in range(TRIES):
            try:
                return self._try_to_write(fill, commit=commit)
            except redis.WatchError:  # the epoch has changed, or the connection broke: check again
                continue
        raise redis.ConnectionError("the connection breaks repeatedly")

    @contextmanager
    def restoring(self) -> Iterator[Callable[[Callable[[Connection], object]], None]]:
        """Write what the server has lost, as one more commit, in parts: each fills a transaction.

        Until all of them are made the server has no commit, so a successor knows that it has lost
        some. The lease comes with the charge: without it another would take the farm for one whose
        holder keeps no lease. Raises DeposedError if another scheduler has taken charge;
        redis.ConnectionError if it should be begun again: what was written is lost again.
        """
        self.lost_writes = True
        none = Charge(self.epoch, 0, self._holder)

        def begin(pipe: Connection) -> None:
            set_charge(pipe, self._key, none)
            self._renew(pipe)

        self._restore(begin, anew=True)
        yield self._restore
        all_made = Charge(self.epoch, self.commits + 1, self._holder)
        self._restore(lambda pipe: set_charge(pipe, self._key, all_made))
        self._made()
        self.lost_writes = False

    def _restore(self, fill: Callable[[Connection], object], *, anew: bool = False) -> None:
        charge = charge_of(self._watched.read()[0])
        if self._is_deposed_by(charge) or self._is_leased():
            raise DeposedError
        if charge.epoch < self.epoch and not anew:
            raise redis.ConnectionError("the server has lost its data again")
        try:
            sound(*self._watched.carry_out(fill))
        except redis.WatchError as error:
            raise redis.ConnectionError(str(error)) from None

    def _try_to_write(self, fill: Callable[[Connection], object], *, commit: bool) -> list[Any]:
        charge = charge_of(self._watched.read()[0])
        standing = self._standing(charge)
        if standing is Standing.DEPOSED:
            raise DeposedError
        if standing is Standing.LOST_WRITES:
            self._watched.forget()
            self.lost_writes = True
            raise LostWritesError(self.commits - charge.commits if charge.epoch else None)
        if standing is Standing.COMMITTED_UNANSWERED:
            self._made()
            if commit:
                return []

        def fill_all(pipe: Connection) -> None:
            fill(pipe)
            if commit:
                pipe.hset(self._key, "commits", self.commits + 1)
                self._in_doubt = True

        answers = sound(*self._watched.carry_out(fill_all))
        if commit:
            self._made()
        return answers

    def _standing(self, charge: Charge) -> Standing:
        """Return how this writer stands, if the server says this."""
        if self._is_deposed_by(charge):
            return Standing.DEPOSED
        is_ours = charge.epoch == self.epoch
        if self._in_doubt and is_ours and charge.commits == self.commits + 1:
            return Standing.COMMITTED_UNANSWERED
        if charge.epoch < self.epoch or charge.commits < self.commits:
            return Standing.LOST_WRITES
        return Standing.AS_EXPECTED

    def _is_deposed_by(self, charge: Charge) -> bool:
        """Whether this charge is a later one, or another writer's of an epoch that was lost."""
        is_ours = charge.epoch == self.epoch and charge.holder in (self._holder, b"")
        return charge.epoch >= self.epoch and not is_ours

    def _is_leased(self) -> bool:
        """Whether another has the lease: one that began with what a server has not lost."""
        holder: bytes | None = ours_or(None, lambda: self._client.get(self._lease))
        return holder not in (None, self._holder)

    def _made(self) -> None:
        self.commits += 1
        self._in_doubt = False


def charge_at(pipe: Connection, key: str) -> Charge:
    """Return what is there; 0 for what is no number."""
    return charge_of(ours_or(None, lambda: pipe.hmget(key, *Charge._fields)))


def charge_of(values: Sequence[bytes | None] | None) -> Charge:
    """Return what was read; None: the key holds something else."""
    epoch, commits, holder = values or (None, None, None)
    return Charge(_count(epoch), _count(commits), holder or b"")


def set_charge(pipe: Connection, key: str, charge: Charge) -> None:
    """Write it, whatever is there now."""
    pipe.delete(key)
    pipe.hset(key, mapping=charge._asdict())


def _count(value: bytes | None) -> int:
    text = (value or b"")[:20]
    return int(text) if text.isdigit() and int(text) < MAX_COUNT else 0


def carry_out(pipe: Connection) -> list[Any]:
    """Return the answers to what is in a pipeline; raises LostWritesError, redis.RedisError."""
    keys = [str(args[1]) for args, _ in pipe.command_stack]
    return sound(keys, pipe.execute(raise_on_error=False))


def sound(keys: Sequence[str], answers: list[Any]) -> list[Any]:
    """Return the answers to commands on these keys; raises the errors among them, as above."""
    refused = [(k, a) for k, a in zip(keys, answers, strict=True) if isinstance(a, Exception)]
    for _, error in refused:
        if not isinstance(error, redis.ResponseError) or trouble_of(error) is not None:
            raise error
    if refused:
        raise LostWritesError(keys=sorted({key for key, _ in refused}))
    return answers
