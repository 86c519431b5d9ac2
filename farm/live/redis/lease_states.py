"""The states of a farm's lease, as a process on standby sees them, and what leads to each.

========  =====================  =========================================  ====================
state     the server has         the process that led the farm last         a standby
========  =====================  =========================================  ====================
HELD      a lease                is not known to have ended                 waits for its end
ENDED     a lease, or anything   is known to have ended, or never was one   takes the farm
RESERVED  no lease               may live, and may come back for the farm   waits
FREE      no lease               has released the farm, is known to have    takes the farm
                                 ended, or had time enough to come back
========  =====================  =========================================  ====================

An absent lease does not mean that its holder is dead. While the server is in trouble the holder
cannot renew its lease, and a server that lost its data has lost the lease too; in both cases the
holder still has the farm in memory. So an absent lease is RESERVED for it from every sign of such
trouble on (``SIGNS``), for as long as the sign says; then it is FREE.

A lease that is there ends when the server says so, by its clock. If that was set back, it says so
too late, and shows more time left than any holder asks for. From then on this process's own clock
counts: a holder that does not renew the lease within a lease time has lost it, and the lease counts
as absent.

Nothing here asks a server or a clock: all instants are monotonic, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from farm.live.redis.keys import UNREADABLE
from farm.live.redis.leader_fencing import Charge
from farm.processes.identity import is_alive, process_space

#: share of the lease time within which a server answers: one that took longer may have kept the
#: holder from renewing the lease for so long that it has expired
ANSWERED_WITHIN = 0.25


class LeaseState(Enum):
    """What a lease is to a process on standby; the module's docstring has the table."""

    HELD = auto()
    ENDED = auto()
    RESERVED = auto()
    FREE = auto()


#: whether a standby may take the farm
MAY_TAKE: Mapping[LeaseState, bool] = {
    LeaseState.HELD: False,
    LeaseState.ENDED: True,
    LeaseState.RESERVED: False,
    LeaseState.FREE: True,
}


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


class LeaseTimes(NamedTuple):
    """How long a lease lasts, and how long its holder has to take it again; seconds."""

    lease: float
    #: after trouble with the server
    grace: float


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the server said when it was asked for the lease."""

    #: the value of the lease's key; None: there is none
    lease: bytes | None
    #: the process of that lease; None: none that is known to be alive
    holder: Holder | None
    #: who took the farm last, and how much was written since
    charge: Charge
    #: seconds until the lease ends by the server's clock; None: the server did not say
    time_left: float | None = None
    #: whether the server takes writes
    is_writable: bool = True
    #: seconds for which the answer was awaited
    answer_time: float = 0.0
    #: when the answer came
    at: float


class Sign(NamedTuple):
    """A sign that the last holder may be alive although its lease is absent."""

    is_shown: Callable[[Vacancy, Look, LeaseTimes], bool]
    #: for how long an absent lease is reserved from then on
    reserved_time: Callable[[LeaseTimes], float]


class Vacancy(msgspec.Struct, frozen=True):
    """What a standby remembers of its looks, by which it knows the state of the lease."""

    #: what the server said last about who is in charge
    charge: Charge = Charge()
    #: the highest epoch that it ever said: an emptied server says a lower one
    highest_epoch: int = 0
    #: until when an absent lease is reserved; None: before the first look
    reserved_until: float | None = None
    #: when a lease ends that has more time left than is possible; None: it has not
    overdue_at: float | None = None

    def state(self, lease: bytes | None, holder: Holder | None, now: float) -> LeaseState:
        """Return the state of the lease.

        Args:
            lease: the value of its key.
            holder: the process of that value; None: none that is known to be alive.
            now: the present instant.
        """
        is_overdue = self.overdue_at is not None and now >= self.overdue_at
        if lease is not None and not is_overdue:
            return LeaseState.ENDED if holder is None else LeaseState.HELD
        may_live = (
            self.charge.epoch < self.highest_epoch or holder_of(self.charge.holder) is not None
        )
        is_reserved = self.reserved_until is not None and now < self.reserved_until
        return LeaseState.RESERVED if may_live and is_reserved else LeaseState.FREE

    def after_look(self, look: Look, times: LeaseTimes) -> Vacancy:
        """Return what is remembered after a look."""
        reserved_until = self.reserved_until or 0.0
        for sign in SIGNS.values():
            if sign.is_shown(self, look, times):
                reserved_until = max(reserved_until, look.at + sign.reserved_time(times))
        overdue_at = self.overdue_at
        if look.holder is not None and look.time_left is not None:
            if look.time_left <= times.lease:
                overdue_at = None
            elif overdue_at is None:
                overdue_at = look.at + times.lease
        highest_epoch = max(look.charge.epoch, self.highest_epoch)
        return Vacancy(look.charge, highest_epoch, reserved_until, overdue_at)

    def after_error(self, now: float, times: LeaseTimes) -> Vacancy:
        """Return what is remembered after a call that the server refused, or did not answer."""
        reserved_until = max(self.reserved_until or 0.0, now + times.grace)
        return msgspec.structs.replace(self, reserved_until=reserved_until)


def _is_first_look(vacancy: Vacancy, _look: Look, _times: LeaseTimes) -> bool:
    return vacancy.reserved_until is None


def _came_late(_vacancy: Vacancy, look: Look, times: LeaseTimes) -> bool:
    return look.answer_time > ANSWERED_WITHIN * times.lease


def _has_lost_writes(vacancy: Vacancy, look: Look, _times: LeaseTimes) -> bool:
    before = vacancy.charge
    return (look.charge.epoch, look.charge.commits) < (before.epoch, before.commits)


def _refuses_renewals(_vacancy: Vacancy, look: Look, _times: LeaseTimes) -> bool:
    return look.holder is not None and not look.is_writable


#: the signs that one look may show
SIGNS: Mapping[str, Sign] = {
    # a trouble may have ended just before
    "first look": Sign(_is_first_look, lambda times: times.lease),
    # the holder's renewal waits behind what the server does, too
    "late answer": Sign(_came_late, lambda times: times.lease),
    # emptied, or restored from an older state: the lease was among what was lost
    "lost writes": Sign(_has_lost_writes, lambda times: times.grace),
    # the holder cannot renew its lease, which may expire at the moment at which the trouble ends
    "refused write": Sign(_refuses_renewals, lambda times: times.grace),
}
