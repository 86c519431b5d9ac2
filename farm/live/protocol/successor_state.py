"""What the next scheduler needs besides jobs and builders, committed when it changes."""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.scheduler import Scheduler
from farm.live.protocol.builders import BuilderRequests
from farm.live.protocol.roster import Roster
from farm.live.store.batch import Batch
from farm.live.store.saved import Counts, HostLife, host_life


class SuccessorState:
    """Writes it, remembering what was written last."""

    def __init__(self, scheduler: Scheduler, roster: Roster, requests: BuilderRequests) -> None:
        self._scheduler = scheduler
        self._roster = roster
        self._requests = requests
        #: what was written last, by its name in a batch
        self._written: dict[str, object] = {}

    def write(self, batch: Batch, serial: int, ended: Mapping[str, int]) -> None:
        """Add what changed to the batch; ``serial`` of the last job, ``ended`` by outcome."""
        write_hosts(self._roster, batch)
        before, self._written = self._written, {
            "counts": counts_of(self._scheduler, serial, ended),
            "wanted": tuple(self._requests.wanted),
            "requested": tuple(self._requests.outside.values()),
        }  # fmt: skip
        for name, value in self._written.items():
            if value != before.get(name):
                setattr(batch, name, value)

    def forget(self) -> None:
        """Write all of it the next time: the server has lost it."""
        self._roster.changed.update(self._roster.hosts)
        self._written = {}


def counts_of(scheduler: Scheduler, serial: int, ended: Mapping[str, int]) -> Counts:
    """Return where the counting stands."""
    return Counts(
        made=scheduler.keeper.made,
        made_by_pool={name: pool.made for name, pool in scheduler.keeper.pools.items()},
        serial=serial,
        ended=dict(ended),
        choices=scheduler.rules.choices,
        unsorted=scheduler.reorderer.unsorted,
        held=dict(scheduler.dispatcher.held),
    )


def write_hosts(roster: Roster, batch: Batch) -> None:
    """Add what changed about builder hosts, for a successor."""
    for name in roster.changed:
        host = roster.hosts.get(name)
        if host is None:
            batch.gone_hosts.append(name)
            batch.lives.pop(name, None)
        else:
            batch.lives[name] = HostLife(*host_life(host))
    roster.changed.clear()
