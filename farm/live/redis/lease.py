"""One scheduler per farm: a key with a token that its holder keeps refreshing.

``lease_states`` says when a process on standby may take the farm.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import redis

from farm.core.errors import ServerError
from farm.live.redis.connection import Connection, redacted
from farm.live.redis.kept_connection import KeptConnection, RepeatedCommands
from farm.live.redis.keys import Keys
from farm.live.redis.leader_fencing import (
    Charge,
    DeposedError,
    Fence,
    WatchedKeys,
    charge_at,
    charge_of,
    set_charge,
)
from farm.live.redis.lease_states import (
    MAY_TAKE,
    Holder,
    LeaseState,
    LeaseTimes,
    Look,
    Vacancy,
    holder_of,
)
from farm.live.redis.trouble import is_spoilt, ours_or
from farm.processes.identity import began_at, end_of, process_space

#: real seconds after which a holder that says nothing has lost the farm. It may be short: one that
#: was only slow loses its charge, and the fence keeps it from writing
LEASE_TIME = 2.0
#: real seconds that a holder has, once trouble with the server is over, to take its lease again
GRACE = 3 * LEASE_TIME
#: share of its lease time after which a holder renews it: a try may fail
RENEWED_AFTER = 1 / 3
#: polling interval of a standby, real seconds. The end of a holder on the same machine wakes it
#: earlier. It must be shorter than ``LEASE_TIME``, so that a standby notices any trouble that lasts
#: long enough to cost the holder its lease
STANDBY_INTERVAL = 1.0
#: polling interval of a standby where no process holds the lease, real seconds
VACANT_POLL_INTERVAL = 0.1

Wait = Callable[..., bool | None]
"""Pauses for real seconds, the first argument; the others are file descriptors that end the pause
when they become readable. Returns whether a stop was requested."""


class HolderWatch:
    """Notices the end of a holder on the same machine; from look to look it is the same one."""

    def __init__(self) -> None:
        self._holder: Holder | None = None
        self._ends: tuple[int, ...] = ()
        self._open = contextlib.ExitStack()

    def wait(self, wait: Wait, holder: Holder, timeout: float) -> bool | None:
        """Wait until the holder ends, at most ``timeout`` real seconds; as ``wait``."""
        if holder != self._holder:
            self.close()
            if holder.is_local:
                self._ends = self._open.enter_context(end_of(holder.pid))
            self._holder = holder
            if holder.has_died:  # before it was watched
                timeout = 0.0
        return wait(timeout, *self._ends)

    def close(self) -> None:
        """Stop watching."""
        self._open.close()
        self._holder, self._ends = None, ()


def _unless_spoilt(answer: Any) -> Any:
    """Return an answer, or None where the key holds something else than ours; raises others."""
    if not isinstance(answer, Exception):
        return answer
    if is_spoilt(answer):
        return None
    raise answer


class HeldByOther(NamedTuple):
    """Another process leads the farm."""

    holder: Holder
    #: when its lease expires unless it is renewed, in real seconds from the last look
    expires_in: float


class Lease:
    """This process's claim to lead the farm.

    It stands by until it may take the lease, which is refreshed by a thread so that a long decision
    does not lose it. It leads until another process has taken the lease (``lost``), or until it
    releases it itself; in both cases the lease is not taken again.
    """

    def __init__(
        self, client: Connection, keys: Keys, lease_time: float = LEASE_TIME, grace: float = GRACE
    ) -> None:
        self._client = client
        self._keys = keys
        self._key = keys.lease
        self._times = LeaseTimes(lease_time, grace)
        pid = os.getpid()
        self.holder = Holder(
            uuid.uuid4().hex, socket.gethostname(), pid, process_space(), began_at(pid)
        )
        self._value = msgspec.json.encode(self.holder)
        # while this process stands by
        self._vacancy = Vacancy()
        self._held_by: HeldByOther | None = None
        # while it leads: its epoch, and when the lease expires at the earliest (monotonic)
        self._epoch = 0
        self._expires_at = 0.0
        read_charge = ("HMGET", keys.fence, *Charge._fields)
        self._watched = WatchedKeys(client, [self._key], read_charge, ("GET", self._key))
        self._connection = KeptConnection(client)
        #: see ``_look``, ``_refresh``
        self._looks = RepeatedCommands(
            ("GET", self._key), ("PTTL", self._key), read_charge, ("SETRANGE", self._key, 0, "")
        )
        self._extends = RepeatedCommands(
            ("GETEX", self._key, "PX", int(lease_time * 1000)), read_charge
        )
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
            holder = holder_of(self._value_at(self._client))
            if holder is not None and self._vacancy.overdue_at is None:
                raise ServerError(
                    f"Redis at {redacted(url)} already has a farm with a live scheduler (process "
                    f"{holder.pid} on {holder.machine}): stop that one, use another server, or "
                    "another FARM_PREFIX"
                )
            wait(VACANT_POLL_INTERVAL)
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
        with contextlib.closing(HolderWatch()) as watch:
            while fence is None:
                if self._pause(wait, watch):
                    raise SystemExit(0)  # nothing was begun, so nothing is to be ended
                with contextlib.suppress(redis.RedisError):
                    fence = self.try_to_take(client)
        on_charge(True)
        return fence

    def _pause(self, wait: Wait, watch: HolderWatch) -> bool | None:
        """Wait until the lease may be free, or the next look is due.

        The end of a holder on this machine wakes the standby at once, so that it decides some 0.2 s
        after a leader was killed.
        """
        if self._held_by is None:
            return wait(VACANT_POLL_INTERVAL)
        holder, expires_in = self._held_by
        return watch.wait(wait, holder, min(expires_in, STANDBY_INTERVAL))

    def try_to_take(self, client: Connection) -> Fence | None:
        """Take charge of the farm; None if another process has it, or may come back for it.

        Returns the fence for what this process writes through ``client``. Raises redis.RedisError.
        """
        try:
            look = self._look()
            self._vacancy = self._vacancy.after_look(look, self._times)
            self._held_by = self._holder_in(look)
            if self._held_by is not None:
                return None
            return self._try_to_take(client)
        except redis.WatchError:  # another process was faster
            return None
        except redis.RedisError:
            self._vacancy = self._vacancy.after_error(time.monotonic(), self._times)
            raise

    def _look(self) -> Look:
        """Ask the server for the lease.

        Everything is asked in one round trip, together with an empty write. A server that refuses
        writes refuses that one too, so a standby notices that the holder cannot renew its lease.
        With reads alone the lease would look valid until the trouble is over, and free right after.
        """
        asked_at = time.monotonic()
        lease, left_ms, charge, written = self._connection.repeat(self._looks)
        answered_at = time.monotonic()

        lease = _unless_spoilt(lease)
        time_left = None
        if isinstance(left_ms, int) and left_ms > 0:  # older access control lists forbid PTTL
            time_left = left_ms / 1000
        return Look(
            lease=lease,
            holder=holder_of(lease),
            charge=charge_of(_unless_spoilt(charge)),
            time_left=time_left,
            is_writable=not isinstance(written, Exception) or is_spoilt(written),
            answer_time=answered_at - asked_at,
            at=answered_at,
        )

    def _holder_in(self, look: Look) -> HeldByOther | None:
        """Return who leads the farm, after a look; None: the lease may be taken, or is reserved."""
        state = self._vacancy.state(look.lease, look.holder, look.at)
        if look.holder is None or state is not LeaseState.HELD:
            return None
        expires_in = self._times.lease if look.time_left is None else look.time_left
        if self._vacancy.overdue_at is not None:
            expires_in = self._vacancy.overdue_at - look.at
        return HeldByOther(look.holder, expires_in)

    def _try_to_take(self, client: Connection) -> Fence | None:
        """Take the lease if its state allows that, which nothing may change in between."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._key, self._keys.fence)
            lease = self._value_at(pipe)
            charge = charge_at(pipe, self._keys.fence)
            holder = holder_of(lease)
            now = time.monotonic()
            look = Look(lease=lease, holder=holder, charge=charge, at=now)
            self._vacancy = self._vacancy.after_look(look, self._times)
            if not MAY_TAKE[self._vacancy.state(lease, holder, now)]:
                return None
            taken = Charge(self._vacancy.highest_epoch + 1, charge.commits, self._value)
            pipe.multi()
            self._set(pipe)
            set_charge(pipe, self._keys.fence, taken)
            asked_at = time.monotonic()
            pipe.execute()
        self._expires_at = asked_at + self._times.lease
        self._epoch = taken.epoch
        self._thread = threading.Thread(target=self._keep, name="farm-lease", daemon=True)
        self._thread.start()
        return Fence(client, self._keys, taken, self._set)

    def check(self) -> None:
        """Raise DeposedError if another scheduler has taken the farm."""
        if self.lost:
            raise DeposedError

    def is_held(self) -> bool:
        """Return whether no other process can have taken it; raises redis errors.

        Asks the server only if it may have run out, as after a pause of this process.
        """
        if not self.lost and time.monotonic() >= self._expires_at:
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
        while not self._stop.wait(RENEWED_AFTER * self._times.lease):
            # a server that is away, or still reads what it had: the next try will show
            with contextlib.suppress(redis.RedisError):
                self._renew()
            if self.lost:
                return

    def _renew(self) -> None:
        with self._renewal:  # two would disturb each other
            asked_at = time.monotonic()
            self.lost = not self._refresh()
            self._expires_at = asked_at + self._times.lease

    def _refresh(self) -> bool:
        """Extend the lease, even if it has expired or was deleted, unless another has taken it.

        A lease that is there is read and extended by one command. So one that was deposed may
        extend the other's lease, once, as it learns of that by the same answer.
        """
        extended, charge = self._connection.repeat(self._extends)
        if extended == self._value:
            return charge_of(_unless_spoilt(charge)).epoch <= self._epoch
        self._watched.forget()
        values, value = self._watched.read()
        if charge_of(values).epoch > self._epoch or value not in (self._value, None):
            return False
        self._watched.carry_out(self._set)  # if it has changed, the next try will show
        return True

    def _value_at(self, client: Connection) -> bytes | None:
        """Return what the key says; None where that is no text: it is written over."""
        value: bytes | None = ours_or(None, lambda: client.get(self._key))
        return value

    def _set(self, pipe: Connection) -> None:
        pipe.set(self._key, self._value, px=int(self._times.lease * 1000))
