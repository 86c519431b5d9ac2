"""Rollouts of a live farm, by a process of their own, where they are affordable.

The scheduler's thread only takes a snapshot and sends it; another thread waits for the reply. While
one request is worked on the next ones gather, and are then one: a queue's jobs cost little more
together than one of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from farm.app.forecasts.rollout_conversation import Reply, Request, RolloutConversation
from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Choices, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.dispatch.at_submission import Forecast, executing
from farm.forecasts.dispatch.recent_arrivals import MOST_JOBS, ArrivalMemory, RecentArrivals
from farm.forecasts.runtime.quantiles import RuntimeDistribution, sort_of
from farm.forecasts.runtime.young_kinds import MIN_RUNS
from farm.live.operating.answers import Source, as_chosen
from farm.scenario import Scenario
from farm.sim.rollouts.later_arrivals import matter

log = logging.getLogger("farm.scheduler")

#: waiting and running jobs up to which rollouts are affordable where queues only get empty, whose
#: snapshot takes the scheduler's thread some milliseconds
MAX_QUEUED_JOBS = 1000
#: … where all else may happen, which is simulated as a whole
MAX_SIMULATED_JOBS = 150
#: rollouts of a whole farm, each of which is a simulation; P90 is then about the second longest
WHOLE_ROLLOUTS = 20
#: real seconds after which a reply is not waited for: the process may just have been started
PATIENCE = 5.0
#: what was learned is dumped again after this many times the time that dumping it took
MIN_REST = 20.0
#: … and no sooner than after as many real seconds
LEARNING_INTERVAL = 0.5


class RolloutRequest:
    """Jobs that are asked about; ``done`` when ``forecasts`` has what there will be."""

    def __init__(
        self, jobs: Sequence[str], poll: Callable[[], None], patience: float = PATIENCE
    ) -> None:
        self.jobs = jobs
        self.forecasts: dict[str, Forecast] = {}
        #: of how many rollouts
        self.rollouts = 0
        #: when they were made, farm time
        self.at = 0.0
        self.answered = False
        self._poll = poll
        self._until = time.monotonic() + patience

    @property
    def done(self) -> bool:
        """Whether it was answered, or is not waited for any longer."""
        if not self.answered:
            self._poll()
        return self.answered or time.monotonic() >= self._until


class AttachedFarm(NamedTuple):
    """The farm whose present state is rolled out."""

    scheduler: Scheduler
    #: its time
    clock: Callable[[], float]
    #: it is queues on fixed pools alone
    is_plain: bool

    @property
    def is_too_expensive(self) -> bool:
        """Whether rollouts take longer now than they are worth."""
        limit = MAX_QUEUED_JOBS if self.is_plain else MAX_SIMULATED_JOBS
        return len(self.scheduler.jobs) > limit

    def waits(self, job: str) -> bool:
        """Return whether a job is there, and waits."""
        state = self.scheduler.jobs.get(job)
        return state is not None and executing(state).slot is None


class RolloutService:
    """Answers how jobs will go by rollouts; used from the scheduler's thread.

    ``run_times``: the name of the estimator whose ``distribution`` run times are drawn from.
    """

    def __init__(
        self, scenario: Scenario, distribution: RuntimeDistribution, run_times: str
    ) -> None:
        self.run_times = run_times
        self._scenario = scenario
        self._distribution = distribution
        self._conversation = RolloutConversation()
        self._farm: AttachedFarm | None = None
        #: requests that the process works on, and those that wait for it
        self._sent: list[RolloutRequest] = []
        self._pending: list[RolloutRequest] = []
        #: what the process was told
        self._choices: Choices | None = None
        #: what was learned, still to be sent
        self._learned: dict[str, object] | None = None
        #: when that is to be dumped again (real)
        self._learn_at = 0.0
        self._memory = ArrivalMemory(MOST_JOBS)
        #: why there are no rollouts any more
        self._trouble = ""

    def attach(
        self, scheduler: Scheduler, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """Begin: ``clock`` is farm time, ``wake`` ends the scheduler's wait from another thread."""
        is_plain = only_queues(scheduler.rules, list(scheduler.keeper.specs.values()))
        self._farm = AttachedFarm(scheduler, clock, is_plain)
        self._conversation.wake = wake
        self.start()

    def start(self) -> None:
        """Start the process, if it was not: it takes a second or so to come up."""
        self._conversation.start()

    def close(self) -> None:
        """End the process."""
        self._trouble = "closed"
        self._conversation.close()

    def take(self, event: Event) -> None:
        """Learn from the farm's next event what arrives."""
        self._memory.observe(event)

    def ask(self, jobs: Sequence[str], patience: float = PATIENCE) -> RolloutRequest | None:
        """Ask about waiting jobs, in the farm's present state; None: that is too expensive now.

        ``patience``: real seconds after which the reply is not waited for.
        """
        if self._trouble or self._farm is None or self._farm.is_too_expensive:
            return None
        request = RolloutRequest(jobs, self._poll, patience)
        self._pending.append(request)
        self._poll()
        return request

    def basis(self, job: Job) -> tuple[int, Source]:
        """Return how many run times of a job's kind are known, and what its own is drawn from."""
        known, spread = self._distribution.known_of(sort_of(job)), self._distribution.spread(job)
        if spread is None:
            return known, "estimate"
        return known, "kind" if known >= MIN_RUNS else "all kinds"

    # --- one request after the other ------------------------------------------------------------

    def _poll(self) -> None:
        reply = self._conversation.reply()
        if reply is not None:
            self._take(reply)
            self._learn()  # at another turn than a snapshot, each takes its milliseconds
        elif self._pending and not self._sent and not self._conversation.is_busy:
            self._send()

    def _send(self) -> None:
        """Send what is asked as one request; what cannot be asked any more is answered."""
        requests = self._pending
        self._pending = []
        farm = self._farm
        names = [job for request in requests for job in request.jobs]
        if farm is not None and not self._trouble and not farm.is_too_expensive:
            jobs = tuple(dict.fromkeys(filter(farm.waits, names)))
            if jobs:
                snapshot = snapshot_of(farm.scheduler, farm.clock())
                for request in requests:
                    request.at = snapshot.at
                    request.jobs = jobs
                self._sent = requests
                self._conversation.send(self._message(farm, snapshot, jobs))
                return
        for request in requests:
            request.answered = True

    def _message(
        self, farm: AttachedFarm, snapshot: FarmSnapshot, jobs: tuple[str, ...]
    ) -> Request:
        """Return a request on these jobs; what the process knows is not said again."""
        choices = farm.scheduler.rules.choices
        scenario = None
        if choices != self._choices:
            scenario = as_chosen(self._scenario, choices)
            self._choices = choices
            self._learned = self._distribution.dump()
        statistics = self._learned
        self._learned = None
        recent = self._recent(farm, snapshot)
        count = self._scenario.estimates.rollouts
        if recent is not None or not farm.is_plain:
            count = min(count, WHOLE_ROLLOUTS)
        # sizes are the scenario's then
        sent_choices = msgspec.structs.replace(choices, pools={})
        return Request(
            snapshot=msgspec.structs.replace(snapshot, choices=sent_choices),
            jobs=jobs,
            rollouts=count,
            scenario=scenario,
            run_times="" if scenario is None else self.run_times,
            statistics=statistics,
            recent=recent,
        )

    def _recent(self, farm: AttachedFarm, snapshot: FarmSnapshot) -> RecentArrivals | None:
        """Return what arrived lately, if that comes again and matters, and can be afforded."""
        if len(farm.scheduler.jobs) > MAX_SIMULATED_JOBS:
            return None
        recent = self._memory.recent(snapshot.at)
        if recent is None:
            return None
        jobs = [*(record.job for record in snapshot.waiting), *recent.jobs]
        specs = farm.scheduler.keeper.specs.values()
        if not matter(farm.scheduler.rules, snapshot.choices, specs, jobs):
            return None
        return recent

    def _learn(self) -> None:
        began = time.monotonic()
        if began >= self._learn_at:
            self._learned = self._distribution.dump()
            took = time.monotonic() - began
            self._learn_at = began + max(LEARNING_INTERVAL, MIN_REST * took)

    def _take(self, reply: Reply) -> None:
        if reply.trouble:
            self._trouble = reply.trouble
            if not self._conversation.is_closed:
                log.warning("estimates by the formula from now on: %s", reply.trouble)
        for request in self._sent:
            request.forecasts = dict(zip(request.jobs, reply.forecasts, strict=False))
            request.rollouts = reply.rollouts
            request.answered = True
        self._sent = []


def only_queues(rules: SchedulingRules, pools: Sequence[PoolSpec]) -> bool:
    """Return whether a farm is plain queues on fixed pools, which the fast method plays."""
    plain = rules.path is None and not rules.by_speed and rules.heavy_light is None
    none = (None, None, None)
    more = (p.provisioned or p.lost_at or (p.law, p.uses, p.lifetime) != none for p in pools)
    return plain and not rules.ends_together and not any(more)
