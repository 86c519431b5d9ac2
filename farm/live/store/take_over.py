"""How a scheduler takes over a farm that stays up, and restores its state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from farm.core.errors import ServerError
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot
from farm.live.redis.server_calls import ServerCalls
from farm.live.store.saved import Learned, SavedFarm, snapshot_of_saved
from farm.live.store.store import Store


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a long-running farm, which continues from the state in Redis."""

    #: restores the scheduler from a snapshot (True: its rules are not those of the snapshot),
    #: with what its predecessor had learned
    restore: Callable[[FarmSnapshot, bool, Learned], None]
    #: names the scheduling rules: jobs that were queued under others are ordered anew
    rules: str
    #: begin afresh: forget what is in Redis
    fresh: bool = False
    #: gives the event log's lines since it was asked last; None: none is kept
    log: Callable[[], bytes] | None = None
    #: where the log is, made by whether the farm begins anew
    log_folder: Path = Path()
    make_log_folder: Callable[[bool], object] = lambda _: None
    #: returns a fresh scheduler, which the log leads to the farm's state if the server has lost it
    make_scheduler: Callable[[], Scheduler] | None = None
    #: go on without what the log has and the server has lost
    accept_loss: bool = False
    #: called with whether this scheduler is in charge (False: it stands by)
    on_charge: Callable[[bool], object] = lambda _: None


def saved_farm(store: Store, call: ServerCalls, speed: float, stays: Stays) -> SavedFarm | None:
    """Return the farm that is in the store; None: a fresh one was begun.

    Raises ServerError if it runs at another speed.
    """
    saved = None if stays.fresh else call(store.saved)
    if saved is None:
        call(lambda: store.open(speed, stays=True))
    elif saved.speed != speed:
        raise ServerError(
            f"the farm in Redis runs at speed {saved.speed:g}, this one would at "
            f"{speed:g}: give it the same speed, or begin afresh (--fresh)"
        )
    return saved


def take_over(store: Store, call: ServerCalls, saved: SavedFarm | None, stays: Stays) -> None:
    """Restore the scheduler from what its predecessor saved, and write by which rules it goes."""
    if saved is not None:
        rekey = saved.rules != stays.rules
        stays.restore(snapshot_of_saved(saved), rekey, saved.learned)
    call(lambda: store.take_over(stays.rules))
