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
from farm.live.redis.fence import Charge, DeposedError, Fence, charge_at, set_charge
from farm.live.redis.keys import UNREADABLE, Keys
from farm.live.redis.trouble import PassOverSpoilt
from farm.processes.identity import began_at, is_alive, process_space

#: real seconds after which a holder that says nothing has lost the farm. It may be short: one that
#: was only slow loses its charge, and the fence keeps it from writing
LEASE_TIME = 2.0
#: real seconds that a holder has, once trouble with the server is over, to take its lease again
GRACE = 3 * LEASE_TIME
#: real seconds between two tries to take it
STANDBY_INTERVAL = 0.1


class Holder(msgspec.Struct, frozen=True):
    """The process in charge of a farm."""

    token: str
    machine: str
    pid: int
    #: where its process id means something, and the moment at which the process began
    space: str = ""
    began: str = ""

    @property
    def has_died(self) -> bool:
        """Return whether it is known to have ended; that is only known for local processes."""
        return self.space == process_space() and not is_alive(self.pid, self.began)


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
        self,
        client: Connection,
        keys: Keys,
        lease_time: float = LEASE_TIME,
        grace: float = GRACE,
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
        #: the epoch that was read last, and the highest
        self._read = self._highest = 0
        #: until when an absent lease is left to a holder that may live; None: before the first look
        self._not_before: float | None = None
        #: when it runs out on the server at the earliest (monotonic)
        self._runs_out_at = 0.0
        self._renewal = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: another process took over
        self.lost = False

    def take(self, client: Connection, url: str, wait: Callable[[float], object]) -> Fence:
        """Take charge of the farm and keep it; raises ServerError if a live scheduler has it.

        ``wait`` pauses for real seconds: a lease time at most, if the last holder may have died.
        """
        while (fence := self.try_to_take(client)) is None:
            if holder_of(self._value_at(self._client)) is None:
                wait(STANDBY_INTERVAL)
                continue
            raise ServerError(
                f"Redis at {redacted(url)} already has a farm with a live scheduler"
                f"{self._who()}: stop that one, use another server, or another FARM_PREFIX"
            )
        return fence

    def stand_by(
        self,
        client: Connection,
        wait: Callable[[float], bool],
        on_charge: Callable[[bool], object],
    ) -> Fence:
        """Wait until the farm is free, and take charge of it.

        ``wait`` pauses for real seconds, and returns whether a stop was requested: SystemExit is
        raised then. ``on_charge`` is called with whether this process is in charge.
        """
        fence = self.try_to_take(client)
        if fence is None:
            on_charge(False)
        while fence is None:
            if wait(STANDBY_INTERVAL):
                raise SystemExit(0)  # nothing was begun, so nothing is to be ended
            with contextlib.suppress(redis.RedisError):
                fence = self.try_to_take(client)
        on_charge(True)
        return fence

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
        with self._client.pipeline() as pipe:
            pipe.watch(self._key, self._keys.fence)
            value, charge = self._value_at(pipe), charge_at(pipe, self._keys.fence)
            if self._not_before is None:
                self._leave_alone(self._time)
            if charge.epoch < self._read:
                self._leave_alone(self._grace)
            self._read, self._highest = charge.epoch, max(charge.epoch, self._highest)
            if holder_of(value):
                self._notice_trouble(pipe)
                return None
            if value is None and self._may_be_taken_again(charge):
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
        return Fence(client, self._keys, taken)

    def _leave_alone(self, seconds: float) -> None:
        self._not_before = time.monotonic() + seconds

    def _may_be_taken_again(self, charge: Charge) -> bool:
        """Return whether the last holder of an absent lease may live and still take it again."""
        lives = charge.epoch < self._highest or holder_of(charge.holder) is not None
        return lives and time.monotonic() < (self._not_before or 0.0)

    def _notice_trouble(self, pipe: Connection) -> None:
        """Leave the lease alone for a while if the server keeps its holder from refreshing it.

        The write of nothing changes nothing, but a server that refuses writes refuses it too. By
        reading alone the lease would be valid, and free the moment the trouble is over.
        """
        try:
            with PassOverSpoilt():
                pipe.setrange(self._key, 0, "")
        except redis.RedisError:
            self._leave_alone(self._grace)

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
        with self._client.pipeline() as pipe:
            pipe.watch(self._key)
            epoch = charge_at(pipe, self._keys.fence).epoch
            if epoch > self._epoch or self._value_at(pipe) not in (self._value, None):
                return False
            pipe.multi()
            self._set(pipe)
            pipe.execute()  # raises WatchError if it was taken just now: the next try will show
        return True

    def _value_at(self, client: Connection) -> bytes | None:
        """Return what the key says; None where that is no text: it is written over."""
        with PassOverSpoilt():
            return client.get(self._key)  # type: ignore[no-any-return]
        return None

    def _set(self, pipe: Connection) -> None:
        pipe.set(self._key, self._value, px=int(self._time * 1000))

    def _who(self) -> str:
        holder = holder_of(self._value_at(self._client))
        return "" if holder is None else f" (process {holder.pid} on {holder.machine})"
