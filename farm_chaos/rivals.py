"""Clients that want the same at the same moment: one id for different jobs, one job again.

What the farm answers them is compared with what became of the jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from farm.app.jobs.job_lookup import ended_of, try_again
from farm.core.commands import EndJob
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm_chaos.server_faults import AWAY

log = logging.getLogger("farm.chaos")

#: clients that retry one job at once
RETRYING = 5
#: real seconds for the farm to answer one of them
ANSWER_TIMEOUT = 60.0

Connect = Callable[[], FarmClient]


class Claim(msgspec.Struct, frozen=True):
    """What the farm answered one of several clients that submitted the same ids."""

    jobs: tuple[str, ...]
    #: tells this client's jobs from the others'
    service_time: float
    #: how many of them were refused
    refused: int


class RivalsNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What rivals were told during one fault."""

    acknowledged: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    #: so far
    given_twice: tuple[str, ...] = ()


class Rivals:
    """Runs such clients, and remembers what they were told."""

    def __init__(self) -> None:
        #: ids that the farm has acknowledged
        self.acknowledged: set[str] = set()
        self.claims: list[Claim] = []
        #: ids of retries that one client was told to be its own, and that more than one was
        self._given: set[str] = set()
        self._given_twice: set[str] = set()
        self._lock = threading.Lock()
        #: how much of that is written down
        self._noted_claims = 0
        self._noted = set[str]()

    def news(self) -> RivalsNews:
        """Return what was added since the last time."""
        with self._lock:
            added = tuple(sorted(self.acknowledged - self._noted))
            claims = tuple(self.claims[self._noted_claims :])
            self._noted |= self.acknowledged
            self._noted_claims = len(self.claims)
            return RivalsNews(added, claims, tuple(sorted(self._given_twice)))

    def take_up(self, news: RivalsNews) -> None:
        """Remember what an interrupted campaign has noted."""
        self.acknowledged.update(news.acknowledged)
        self._noted.update(news.acknowledged)
        self.claims += news.claims
        self._noted_claims = len(self.claims)
        self._given_twice.update(news.given_twice)

    def submit_differently(self, connect: Connect, jobs: Sequence[Job]) -> None:
        """Two clients submit these ids at once, the second one with longer jobs."""
        longer = [
            msgspec.structs.replace(job, service_time=job.service_time + 0.125) for job in jobs
        ]
        # one content for each client, so that it is known whose job ended
        offers = [
            [msgspec.structs.replace(job, service_time=offer[0].service_time) for job in offer]
            for offer in (jobs, longer)
        ]
        _at_once([partial(self._claim, connect, offer) for offer in offers])

    def _claim(self, connect: Connect, jobs: Sequence[Job]) -> None:
        with connect() as client:
            client.submit(jobs)
            ids = tuple(job.id for job in jobs)
            with self._lock:
                self.acknowledged.update(ids)
            if client.not_read():
                return
            refused = sum(letter.jobs for letter in client.refused())
            with self._lock:
                self.claims.append(Claim(ids, jobs[0].service_time, refused))

    def retry_at_once(self, connect: Connect, job: str, clients: int = RETRYING) -> None:
        """Clients that retry one job at the same moment, as ``farm retry`` does."""
        _at_once([partial(self._retry, connect, job)] * clients)

    def _retry(self, connect: Connect, job: str) -> None:
        with connect() as client:
            again, not_confirmed = try_again(client, ended_of(client, [job]), once=False)
            new = {one.id for one in again}
            with self._lock:
                self.acknowledged |= new
                if not not_confirmed:
                    self._given_twice |= new & self._given
                    self._given |= new

    def mistakes(self, ends: Mapping[str, EndJob]) -> set[str]:
        """Return the jobs of which a client was told otherwise than it was."""
        found = set(self._given_twice)
        for claim in self.claims:
            own = {
                name
                for name in claim.jobs
                if name in ends and ends[name].job.service_time == claim.service_time
            }
            if len(own) + claim.refused != len(claim.jobs):
                found.update(set(claim.jobs) - own)
        return found


def _at_once(actions: Sequence[Callable[[], None]]) -> None:
    """Carry all out at the same time; errors of a farm that is away are passed over."""
    together = threading.Barrier(len(actions))

    def run(action: Callable[[], None]) -> None:
        together.wait(ANSWER_TIMEOUT)
        try:
            action()
        except AWAY as error:
            log.info("a client was told: %s", error)

    threads = [threading.Thread(target=run, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_TIMEOUT)
