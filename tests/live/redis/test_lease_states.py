"""The states of a lease, and what leads to each: no server and no clock is needed for that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.live.redis.leader_fencing import Charge
from farm.live.redis.lease_states import (
    MAY_TAKE,
    SIGNS,
    Holder,
    LeaseState,
    LeaseTimes,
    Look,
    Vacancy,
)

TIMES = LeaseTimes(lease=2.0, grace=6.0)
#: a process of another machine, of which nothing is known here
AWAY = Holder("token", "elsewhere", 1, space="elsewhere")
LEASE = msgspec.json.encode(AWAY)
LED = Charge(epoch=3, commits=9, holder=LEASE)
#: a standby that has watched the server for long
WATCHED = Vacancy(LED, highest_epoch=3, reserved_until=0.0)


def look(at: float = 10.0, **said: Any) -> Look:
    """Return a look at a lease that is held, and at a server without trouble."""
    given: dict[str, Any] = {"lease": LEASE, "holder": AWAY, "charge": LED, "time_left": 1.5}
    return Look(**{**given, **said, "at": at})


def state_after(vacancy: Vacancy, at: float, lease: bytes | None = None) -> LeaseState:
    """Return the state of an absent lease, or of one of this value."""
    return vacancy.state(lease, AWAY if lease == LEASE else None, at)


@pytest.mark.parametrize(
    ("sign", "vacancy", "said", "reserved_time"),
    [
        ("first look", Vacancy(), {}, TIMES.lease),
        ("late answer", WATCHED, {"answer_time": 0.6}, TIMES.lease),
        ("lost writes", WATCHED, {"charge": LED._replace(commits=8)}, TIMES.grace),
        ("lost writes", WATCHED, {"charge": Charge()}, TIMES.grace),
        ("refused write", WATCHED, {"is_writable": False}, TIMES.grace),
    ],
)
def test_every_sign_reserves_an_absent_lease(
    sign: str, vacancy: Vacancy, said: dict[str, Any], reserved_time: float
) -> None:
    """Otherwise a short outage would cost the farm what only its scheduler still knows."""
    seen = look(**said)
    shown = [name for name, each in SIGNS.items() if each.is_shown(vacancy, seen, TIMES)]
    assert shown == [sign]
    after = vacancy.after_look(seen, TIMES)
    assert state_after(after, 10.0 + reserved_time - 0.1) is LeaseState.RESERVED
    assert state_after(after, 10.0 + reserved_time) is LeaseState.FREE


def test_an_error_reserves_an_absent_lease_for_the_grace() -> None:
    """A server that answers nothing lets no holder renew its lease either."""
    after = WATCHED.after_error(10.0, TIMES)
    assert state_after(after, 15.9) is LeaseState.RESERVED
    assert state_after(after, 16.0) is LeaseState.FREE


def test_a_farm_that_was_released_is_free_at_once() -> None:
    """A successor need not wait for a holder that has said good-bye."""
    released = look(lease=None, holder=None, charge=LED._replace(holder=b""))
    assert state_after(Vacancy().after_look(released, TIMES), 10.0) is LeaseState.FREE


def test_a_lease_is_held_until_its_process_is_known_to_have_ended() -> None:
    """What is no lease, or that of a process that has ended, may be taken."""
    after = WATCHED.after_look(look(), TIMES)
    assert state_after(after, 10.0, LEASE) is LeaseState.HELD
    assert state_after(after, 10.0, b"nonsense") is LeaseState.ENDED


def test_a_lease_with_more_time_left_than_possible_ends_by_our_clock() -> None:
    """A server's clock that was set back would keep a standby waiting for an hour."""
    after = WATCHED.after_look(look(time_left=3600.0), TIMES)
    after = after.after_look(look(11.0, time_left=3599.0), TIMES)
    assert state_after(after, 11.9, LEASE) is LeaseState.HELD
    assert state_after(after, 12.0, LEASE) is LeaseState.FREE
    renewed = after.after_look(look(11.5), TIMES)
    assert state_after(renewed, 12.0, LEASE) is LeaseState.HELD


def test_a_standby_takes_what_is_free_or_ended() -> None:
    """Each state has its answer."""
    assert {state for state in LeaseState if MAY_TAKE[state]} == {LeaseState.FREE, LeaseState.ENDED}
