"""What the next scheduler needs besides jobs and builders, committed when it changes."""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.scheduler import Scheduler
from farm.live.protocol.builders import BuilderRequests
from farm.live.protocol.roster import Roster
from farm.live.store.batch import Batch
from farm.live.store.saved import Counts, HostLife, host_life
from farm.live.wire.messages import Play


class SuccessorState:
    """Writes it, remembering what was written last."""

    def __init__(self, scheduler: Scheduler, roster: Roster, requests: BuilderRequests) -> None:
        self._scheduler = scheduler
        self._roster = roster
        self._requests = requests
        self._counts = Counts()
        self._wanted: tuple[Play, ...] | None = None
        self._requested: tuple[Play, ...] | None = None

    def write(self, batch: Batch, serial: int, ended: Mapping[str, int]) -> None:
        """Add what changed to the batch; ``serial`` of the last job, ``ended`` by outcome."""
        write_hosts(self._roster, batch)
        counts = counts_of(self._scheduler, serial, ended)
        if counts != self._counts:
            self._counts = batch.counts = counts
        wanted, requested = tuple(self._requests.wanted), tuple(self._requests.outside.values())
        if wanted != self._wanted:
            self._wanted = batch.wanted = wanted
        if requested != self._requested:
            self._requested = batch.requested = requested

    def write_all(self, batch: Batch, serial: int, ended: Mapping[str, int]) -> None:
        """Add all of it: the server has lost what was written."""
        self._roster.changed.update(self._roster.hosts)
        self.write(batch, serial, ended)
        batch.counts, batch.wanted, batch.requested = self._counts, self._wanted, self._requested


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
