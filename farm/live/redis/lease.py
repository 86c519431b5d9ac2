"""One scheduler per farm: a key with a token that its holder keeps refreshing."""

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
from farm.live.redis.trouble import is_spoilt, ours_or
from farm.processes.identity import began_at, end_of, is_alive, process_space

#: real seconds after which a holder that says nothing has lost the farm. It may be short: one that
#: was only slow loses its charge, and the fence keeps it from writing
LEASE_TIME = 2.0
#: real seconds that a holder has, once trouble with the server is over, to take its lease again
GRACE = 3 * LEASE_TIME
#: share of its lease time after which a holder renews it: a try may fail
RENEWED_AFTER = 1 / 3
#: share of the lease time within which a server answers: one that took longer may have kept the
#: holder from renewing the lease for so long that it has expired
ANSWERED_WITHIN = 0.25
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


def holder_of(value: bytes | None) -> Holder | None:
    """Return the holder of a lease of this value; None if none is known to be alive."""
    try:
        holder = msgspec.json.decode(value or b"", type=Holder)
    except UNREADABLE:
        return None
    return None if holder.has_died else holder


class HeldByOther(NamedTuple):
    """Another process leads the farm."""

    holder: Holder
    #: when its lease expires unless it is renewed, in real seconds from the last look; 0: it has,
    #: by this process's clock
    expires_in: float


class Vacancy(msgspec.Struct, frozen=True):
    """Decides when a standby may take a lease that is absent.

    An absent lease does not mean that its holder is dead. While the server is in trouble the holder
    cannot renew its lease, and a server that lost its data has lost the lease too; in both cases
    the holder still has the farm in memory. So an absent lease is reserved for a holder that may be
    alive: for one lease time after the first look, as trouble may just have ended, or after an
    answer that came late, as the holder's renewal waits behind what the server does; and for a
    longer grace period after every sign of trouble.

    A present lease ends when the server says so, by its clock. If that was set back, it says so too
    late, and shows more time left than any holder asks for. From then on this process's own clock
    counts: a holder that does not renew the lease within a lease time has lost it.

    All instants are monotonic, in seconds.
    """

    #: what the server said last about who is in charge
    charge: Charge = Charge()
    #: the highest epoch that it ever said
    highest_epoch: int = 0
    #: until when an absent lease is reserved; None: before the first look
    reserved_until: float | None = None
    #: when a lease ends that has more time left than is possible; None: it has not
    overdue_at: float | None = None

    def after_time_left(self, left: float, now: float, *, lease_time: float) -> Vacancy:
        """Return the state after the server said how much time a lease has left, seconds."""
        overdue_at = None
        if left > lease_time:
            overdue_at = now + lease_time if self.overdue_at is None else self.overdue_at
        return msgspec.structs.replace(self, overdue_at=overdue_at)

    def after_look(self, charge: Charge, now: float, *, lease_time: float, grace: float) -> Vacancy:
        """Return the state after the server said who is in charge."""
        reserved_until = self.reserved_until
        if reserved_until is None:
            reserved_until = now + lease_time
        has_lost_writes = (charge.epoch, charge.commits) < (self.charge.epoch, self.charge.commits)
        if has_lost_writes:
            reserved_until = now + grace
        highest_epoch = max(charge.epoch, self.highest_epoch)
        return Vacancy(charge, highest_epoch, reserved_until, self.overdue_at)

    def after_late_answer(self, now: float, *, lease_time: float) -> Vacancy:
        """Return the state after an answer that took so long that a lease may have expired."""
        reserved_until = max(self.reserved_until or 0.0, now + lease_time)
        return msgspec.structs.replace(self, reserved_until=reserved_until)

    def after_trouble(self, now: float, *, grace: float) -> Vacancy:
        """Return the state after a sign of trouble with the server."""
        return msgspec.structs.replace(self, reserved_until=now + grace)

    def may_take(self, lease: bytes | None, now: float) -> bool:
        """Return whether the farm may be taken; ``lease``: the value that the server has."""
        is_overdue = self.overdue_at is not None and now >= self.overdue_at
        if holder_of(lease) is not None and not is_overdue:
            return False
        if lease is not None and not is_overdue:
            return True  # its process has ended, or it is no lease of ours
        holder_may_live = (
            self.charge.epoch < self.highest_epoch or holder_of(self.charge.holder) is not None
        )
        is_reserved = self.reserved_until is not None and now < self.reserved_until
        return not (holder_may_live and is_reserved)


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
        # while another process has the lease
        self._vacancy = Vacancy()
        self._held_by: HeldByOther | None = None
        # while this process has it
        self._epoch = 0
        #: when it expires on the server at the earliest (monotonic)
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
        with contextlib.closing(HolderWatch()) as watch:
            while fence is None:
                if self._pause(wait, watch):
                    raise SystemExit(0)  # nothing was begun, so nothing is to be ended
                with contextlib.suppress(redis.RedisError):
                    fence = self.try_to_take(client)
        on_charge(True)
        return fence

    def _pause(self, wait: Wait, watch: HolderWatch) -> bool | None:
        """Wait until the lease may be free, or the next look is due."""
        if self._held_by is None or self._held_by.expires_in <= 0:
            return wait(SOON)
        holder, expires_in = self._held_by
        return watch.wait(wait, holder, min(expires_in, STANDBY_INTERVAL))

    def try_to_take(self, client: Connection) -> Fence | None:
        """Take charge of the farm; None if another process has it, or may come back for it.

        Returns the fence for what this process writes through ``client``. ``Vacancy`` has the rule.
        Raises redis.RedisError.
        """
        try:
            self._held_by = self._look()
            if self._held_by is not None and self._held_by.expires_in > 0:
                return None
            return self._try_to_take(client)
        except redis.WatchError:  # another process was faster
            return None
        except redis.RedisError:
            self._reserve()
            raise

    def _look(self) -> HeldByOther | None:
        """Return who leads the farm; None if no scheduler does, or its process has surely ended.

        Everything is asked in one round trip, together with an empty write. A server that refuses
        writes refuses that one too, so a standby notices that the holder cannot renew its lease.
        With reads alone the lease would look valid until the trouble is over, and free right after.
        """
        asked_at = time.monotonic()
        lease, left_ms, charge, written = self._connection.repeat(self._looks)
        answered_at = time.monotonic()

        if answered_at - asked_at > ANSWERED_WITHIN * self._time:
            self._vacancy = self._vacancy.after_late_answer(answered_at, lease_time=self._time)
        lease = _unless_spoilt(lease)
        self._see(charge_of(_unless_spoilt(charge)))
        holder = holder_of(lease)
        if holder is None:
            return None
        if isinstance(written, Exception) and not is_spoilt(written):
            self._reserve()
        expires_in, now = self._time, time.monotonic()
        if isinstance(left_ms, int) and left_ms > 0:  # older access control lists forbid PTTL
            expires_in = left_ms / 1000
            self._vacancy = self._vacancy.after_time_left(expires_in, now, lease_time=self._time)
        if self._vacancy.overdue_at is not None:
            expires_in = max(0.0, self._vacancy.overdue_at - now)
        return HeldByOther(holder, expires_in)

    def _try_to_take(self, client: Connection) -> Fence | None:
        with self._client.pipeline() as pipe:
            pipe.watch(self._key, self._keys.fence)
            lease = self._value_at(pipe)
            charge = charge_at(pipe, self._keys.fence)
            self._see(charge)
            if not self._vacancy.may_take(lease, time.monotonic()):
                return None
            taken = Charge(self._vacancy.highest_epoch + 1, charge.commits, self._value)
            pipe.multi()
            self._set(pipe)
            set_charge(pipe, self._keys.fence, taken)
            asked_at = time.monotonic()
            pipe.execute()
        self._expires_at = asked_at + self._time
        self._epoch = taken.epoch
        self._thread = threading.Thread(target=self._keep, name="farm-lease", daemon=True)
        self._thread.start()
        return Fence(client, self._keys, taken, self._set)

    def _see(self, charge: Charge) -> None:
        self._vacancy = self._vacancy.after_look(
            charge, time.monotonic(), lease_time=self._time, grace=self._grace
        )

    def _reserve(self) -> None:
        """Leave an absent lease to its holder, which has trouble with the server."""
        self._vacancy = self._vacancy.after_trouble(time.monotonic(), grace=self._grace)

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
        while not self._stop.wait(RENEWED_AFTER * self._time):
            # a server that is away, or still reads what it had: the next try will show
            with contextlib.suppress(redis.RedisError):
                self._renew()
            if self.lost:
                return

    def _renew(self) -> None:
        with self._renewal:  # two would disturb each other
            asked_at = time.monotonic()
            self.lost = not self._refresh()
            self._expires_at = asked_at + self._time

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
        pipe.set(self._key, self._value, px=int(self._time * 1000))
