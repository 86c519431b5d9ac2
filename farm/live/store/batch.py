"""Changes of a farm that the store writes in one transaction."""

from __future__ import annotations

from collections import defaultdict

from farm.core.commands import EndJob
from farm.core.model import Platform
from farm.core.state.snapshot import BuilderRecord, JobRecord
from farm.live.store.saved import Counts, HostLife, Try
from farm.live.wire.dead_letters import DeadLetter, Reason
from farm.live.wire.messages import Play


class Batch:
    """Changes that are committed together. Later changes to the same thing win."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[str, float]] = defaultdict(dict)
        self.not_waiting: dict[str, list[str]] = defaultdict(list)
        #: platforms that no job waits for any more, and no builder serves
        self.gone_platforms: list[str] = []
        self.jobs: dict[str, JobRecord] = {}
        #: serials by job id: the order of their submission
        self.submitted: dict[str, float] = {}
        self.tries: dict[str, list[Try]] = defaultdict(list)
        self.lives: dict[str, HostLife] = {}
        self.gone_hosts: list[str] = []
        self.counts: Counts | None = None
        #: requested builders: those that await a host with room, and those that come with a host
        #: of their own; None: as before
        self.wanted: tuple[Play, ...] | None = None
        self.requested: tuple[Play, ...] | None = None
        #: jobs on builders: the instants of their dispatch
        self.running: dict[str, float] = {}
        self.not_running: list[str] = []
        self.ended: dict[str, EndJob] = {}
        self.builders: dict[str, BuilderRecord] = {}
        self.gone_builders: list[str] = []
        #: lines of the event log, by the numbers of the commits that they are of
        self.log: dict[int, bytes] = {}
        #: Celery messages by host, in order
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        #: hosts that perhaps are not there: their messages expire
        self.unknown_hosts: set[str] = set()
        #: what was refused, and how many by reason
        self.dead_letters: list[DeadLetter] = []
        self.refused: dict[Reason, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        changes = vars(self).values()
        return not any(changes) and self.wanted is None and self.requested is None

    def waits(self, platform: Platform, member: str) -> None:
        """A job waits for this platform, at the place that the member says."""
        self.waiting[str(platform)][member] = 0.0

    def waits_no_more(self, platform: Platform, member: str) -> None:
        """No job is at that place any more."""
        self.not_waiting[str(platform)].append(member)
