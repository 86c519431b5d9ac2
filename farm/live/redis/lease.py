"""One scheduler per farm: a key with a token that its holder keeps refreshing."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

import msgspec
import redis

from farm.core.errors import ServerError
from farm.live.redis.connection import Connection, redacted
from farm.live.redis.keys import UNREADABLE, Keys
from farm.live.redis.leader_fencing import (
    Charge,
    DeposedError,
    Fence,
    WatchedKeys,
    charge_at,
    charge_of,
    set_charge,
)
from farm.live.redis.trouble import PassOverSpoilt, is_spoilt
from farm.processes.identity import began_at, end_of, is_alive, process_space

#: real seconds after which a holder that says nothing has lost the farm. It may be short: one that
#: was only slow loses its charge, and the fence keeps it from writing
LEASE_TIME = 2.0
#: real seconds that a holder has, once trouble with the server is over, to take its lease again
GRACE = 3 * LEASE_TIME
#: real seconds between two looks of one that stands by, who is woken by the end of a holder on the
#: same machine, and knows when the lease expires. Shorter than the time for which a trouble with
#: the server lasts before a holder has lost its lease by it
STANDBY_INTERVAL = 1.0
#: … if the holder is not known
SOON = 0.1

Wait = Callable[..., bool | None]
"""Pauses for real seconds, the first argument; the others are file descriptors that end the pause
when they become readable. Returns whether a stop was requested."""


class Holder(msgspec.Struct, frozen=True):
    """The process in charge of a farm."""

    token: str
    machine: str
    pid: int
    #: where its process id means something, and the moment at which the process began
    space: str = ""
    began: str = ""

    @property
    def is_local(self) -> bool:
        """Whether its process id means something here."""
        return self.space == process_space()

    @property
    def has_died(self) -> bool:
        """Return whether it is known to have ended; that is only known for local processes."""
        return self.is_local and not is_alive(self.pid, self.began)


def holder_of(value: bytes | None) -> Holder | None:
    """Return the holder of a lease of this value; None if none is known to be alive."""
    try:
        holder = msgspec.json.decode(value or b"", type=Holder)
    except UNREADABLE:
        return None
    return None if holder.has_died else holder


class Lease:
    """Taken once, and refreshed by a thread so that a long decision does not lose it.

    An absent lease is taken at once if the last holder is known to have died or to have released
    it, or if this process has watched the server for a lease time and saw no trouble.
    """

    def __init__(
        self, client: Connection, keys: Keys, lease_time: float = LEASE_TIME, grace: float = GRACE
    ) -> None:
        self._client = client
        self._keys = keys
        self._key = keys.lease
        self._time = lease_time
        self._grace = grace
        pid = os.getpid()
        self.holder = Holder(
            uuid.uuid4().hex, socket.gethostname(), pid, process_space(), began_at(pid)
        )
        self._value = msgspec.json.encode(self.holder)
        self._epoch = 0
        #: the charge that was read last, and the highest epoch
        self._read, self._highest = Charge(), 0
        #: until when an absent lease is left to a holder that may live; None: before the first look
        self._not_before: float | None = None
        #: when it runs out on the server at the earliest (monotonic)
        self._runs_out_at = 0.0
        #: who holds it, by the last look, and its real seconds if it is not renewed
        self._other: Holder | None = None
        self._expires_in = 0.0
        look = ("HMGET", keys.fence, *Charge._fields), ("GET", self._key)
        self._watched = WatchedKeys(client, [self._key], *look)
        self._renewal = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: another process took over
        self.lost = False

    def take(self, client: Connection, url: str, wait: Wait) -> Fence:
        """Take charge of the farm and keep it; raises ServerError if a live scheduler has it.

        It waits for a lease time at most, if the last holder may have died.
        """
        while (fence := self.try_to_take(client)) is None:
            if (holder := holder_of(self._value_at(self._client))) is not None:
                raise ServerError(
                    f"Redis at {redacted(url)} already has a farm with a live scheduler (process "
                    f"{holder.pid} on {holder.machine}): stop that one, use another server, or "
                    "another FARM_PREFIX"
                )
            wait(SOON)
        return fence

    def stand_by(
        self, client: Connection, wait: Wait, on_charge: Callable[[bool], object]
    ) -> Fence:
        """Wait until the farm is free, and take charge of it; raises SystemExit for a stop.

        ``on_charge`` is called with whether this process is in charge.
        """
        fence = self.try_to_take(client)
        if fence is None:
            on_charge(False)
        while fence is None:
            if self._pause(wait):
                raise SystemExit(0)  # nothing was begun, so nothing is to be ended
            with contextlib.suppress(redis.RedisError):
                fence = self.try_to_take(client)
        on_charge(True)
        return fence

    def _pause(self, wait: Wait) -> bool | None:
        """Wait until the lease may be free, or the next look is due."""
        other = self._other
        if other is None:
            return wait(SOON)
        with end_of(other.pid) if other.is_local else contextlib.nullcontext(()) as ends:
            # who ended before that was watched is found now
            return wait(0.0 if other.has_died else min(self._expires_in, STANDBY_INTERVAL), *ends)

    def try_to_take(self, client: Connection) -> Fence | None:
        """Take charge of the farm if it is free; None if it is not.

        Returns the fence for what the new holder writes through ``client``. When the server has
        been in trouble, or has lost what it had, its holder could not keep the lease and has the
        farm in memory: it is given time to take it again. A process that has just begun cannot
        know of a trouble that is just over.
        """
        try:
            return self._try_to_take(client)
        except redis.WatchError:  # another process was faster
            return None
        except redis.RedisError:
            self._leave_alone(self._grace)
            raise

    def _try_to_take(self, client: Connection) -> Fence | None:
        if self._is_held_by_another():
            return None
        with self._client.pipeline() as pipe:
            pipe.watch(self._key, self._keys.fence)
            value, charge = self._value_at(pipe), charge_at(pipe, self._keys.fence)
            self._note(charge)
            if holder_of(value) or (value is None and self._may_be_taken_again(charge)):
                return None
            taken = Charge(self._highest + 1, charge.commits, self._value)
            pipe.multi()
            self._set(pipe)
            set_charge(pipe, self._keys.fence, taken)
            asked_at = time.monotonic()
            pipe.execute()
        self._runs_out_at = asked_at + self._time
        self._epoch = taken.epoch
        self._thread = threading.Thread(target=self._keep, name="farm-lease", daemon=True)
        self._thread.start()
        return Fence(client, self._keys, taken, self._set)

    def _is_held_by_another(self) -> bool:
        """Return whether the farm is led, by one round trip; leave it alone in times of trouble.

        The write of nothing changes nothing, but a server that refuses writes, so that the holder
        cannot renew its lease, refuses it too. By reading alone the lease would be valid, and free
        the moment the trouble is over.
        """
        pipe = self._client.pipeline(transaction=False)
        pipe.get(self._key).pttl(self._key)
        pipe.hmget(self._keys.fence, *Charge._fields).setrange(self._key, 0, "")
        value, left, values, written = pipe.execute(raise_on_error=False)
        for answer in (value, values):
            if isinstance(answer, Exception) and not is_spoilt(answer):
                raise answer
        self._note(charge_of(None if isinstance(values, Exception) else values))
        self._other = None if isinstance(value, Exception) else holder_of(value)
        if self._other is None:
            return False
        # a user of an older access control list may not ask that
        self._expires_in = left / 1000 if isinstance(left, int) and left > 0 else self._time
        if isinstance(written, Exception) and not is_spoilt(written):
            self._leave_alone(self._grace)
        return True

    def _note(self, charge: Charge) -> None:
        """Note who is, or was, in charge; a server that has lost what it had is in trouble."""
        if self._not_before is None:
            self._leave_alone(self._time)
        if charge[:2] < self._read[:2]:  # all that it had, or its last commits
            self._leave_alone(self._grace)
        self._read, self._highest = charge, max(charge.epoch, self._highest)

    def _leave_alone(self, seconds: float) -> None:
        self._not_before = time.monotonic() + seconds

    def _may_be_taken_again(self, charge: Charge) -> bool:
        """Return whether the last holder of an absent lease may live and still take it again."""
        lives = charge.epoch < self._highest or holder_of(charge.holder) is not None
        return lives and time.monotonic() < (self._not_before or 0.0)

    def check(self) -> None:
        """Raise DeposedError if another scheduler has taken the farm."""
        if self.lost:
            raise DeposedError

    def is_held(self) -> bool:
        """Return whether no other process can have taken it; raises redis errors.

        Asks the server only if it may have run out, as after a pause of this process.
        """
        if not self.lost and time.monotonic() >= self._runs_out_at:
            try:
                self._renew()
            except redis.WatchError as error:  # a broken connection, too: the next try will show
                raise redis.ConnectionError(str(error)) from None
        return not self.lost

    def release(self) -> None:
        """Stop refreshing and release the farm if it is still held."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        with contextlib.suppress(redis.RedisError), self._client.pipeline() as pipe:
            pipe.watch(self._key, self._keys.fence)
            held = self._value_at(pipe) == self._value
            named = charge_at(pipe, self._keys.fence).holder == self._value
            pipe.multi()
            if held:
                pipe.delete(self._key)
            if named:
                # not HDEL: a provisioner's own user may not
                pipe.hset(self._keys.fence, "holder", "")
            pipe.execute()

    def _keep(self) -> None:
        while not self._stop.wait(self._time / 4):
            # a server that is away, or still reads what it had: the next try will show
            with contextlib.suppress(redis.RedisError):
                self._renew()
            if self.lost:
                return

    def _renew(self) -> None:
        with self._renewal:  # two would disturb each other
            asked_at = time.monotonic()
            self.lost = not self._refresh()
            self._runs_out_at = asked_at + self._time

    def _refresh(self) -> bool:
        """Extend the lease, even if it has expired or was deleted, unless another has taken it."""
        values, value = self._watched.read()
        if charge_of(values).epoch > self._epoch or value not in (self._value, None):
            return False
        self._watched.carry_out(self._set)  # if it has changed, the next try will show
        return True

    def _value_at(self, client: Connection) -> bytes | None:
        """Return what the key says; None where that is no text: it is written over."""
        with PassOverSpoilt():
            value: bytes | None = client.get(self._key)
            return value
        return None

    def _set(self, pipe: Connection) -> None:
        pipe.set(self._key, self._value, px=int(self._time * 1000))
