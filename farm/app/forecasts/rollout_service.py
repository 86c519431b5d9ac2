"""Rollouts of a live farm, by a process of their own, where they are affordable.

The scheduler's thread only takes a snapshot and sends it; another thread waits for the reply. While
one request is worked on the next ones gather, and are then one: a queue's jobs cost little more
together than one of them.
"""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Choices, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, Steps, executing
from farm.forecasts.dispatch.calibration import ForecastCalibration
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.recent_arrivals import MOST_JOBS, ArrivalMemory, RecentArrivals
from farm.forecasts.runtime.quantiles import RuntimeDistribution, sort_of
from farm.forecasts.runtime.young_kinds import ENOUGH
from farm.live.operating.answers import Source, as_chosen
from farm.scenario import Scenario
from farm.sim.rollouts.later_arrivals import matter

log = logging.getLogger("farm.scheduler")

#: waiting and running jobs up to which rollouts are affordable: where queues only get empty, whose
#: snapshot takes the scheduler's thread some milliseconds; and where all else may happen, which is
#: simulated as a whole
MOST_IN_QUEUES, MOST_AT_ALL = 1000, 150
#: rollouts of a whole farm
WHOLE_ROLLOUTS = 20
#: real seconds after which a reply is not waited for: the process may just have been started
PATIENCE = 5.0
#: after a request the process rests as long as that took, but no longer than this (real seconds)
LONGEST_REST = 2.0
#: what was learned is sent anew after this many times the time that dumping it took, and seconds
SHARE, LEARNING_INTERVAL = 20.0, 0.5
CLOSE_TIMEOUT = 2.0
#: real seconds after which a process that has not replied is ended
REPLY_TIMEOUT = 60.0


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A farm, and the jobs that are asked about; what is None is as in the last request."""

    snapshot: FarmSnapshot
    jobs: tuple[str, ...]
    rollouts: int
    #: the resolved scenario, and the name of the runtime estimator
    scenario: dict[str, object] | None = None
    run_times: str = ""
    #: the dump of the runtime estimator
    statistics: dict[str, object] | None = None
    #: what arrived lately, where what arrives later can matter
    recent: RecentArrivals | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The forecasts of a request's jobs, in order."""

    forecasts: tuple[Forecast, ...] = ()
    #: of how many rollouts
    rollouts: int = 0
    #: real seconds that it took
    took: float = 0.0
    #: why there are none
    trouble: str = ""


class Process:
    """The process that rolls out: requests in, replies out, a line each."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process id; None: it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it; raises OSError if that is impossible."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "farm.app.forecasts.rollout_process", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def reply(self, line: bytes) -> bytes:
        """Return the reply to a request; raises OSError if there is none."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise BrokenPipeError
        # one that is stopped never answers, nor reads
        watchdog = threading.Timer(REPLY_TIMEOUT, process.kill)
        watchdog.start()
        try:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            found = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not found:
            raise BrokenPipeError(f"it ended with exit code {process.wait()}")
        return found

    def close(self) -> None:
        """End it: it has nothing to lose; another thread may call this."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Ticket:
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


class RolloutService:
    """Answers how jobs will go by rollouts; used from the scheduler's thread.

    ``run_times``: the name of the estimator whose ``distribution`` run times are drawn from.
    """

    _scheduler: Scheduler
    _clock: Callable[[], float]
    _wake: Callable[[], None]
    _plain: bool

    def __init__(
        self, scenario: Scenario, distribution: RuntimeDistribution, run_times: str
    ) -> None:
        self.run_times = run_times
        self._scenario = scenario
        self._distribution = distribution
        self._count = scenario.estimates.rollouts
        self._program = Process()
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        #: set while the process takes no request
        self._busy = threading.Event()
        self._sent: list[Ticket] = []
        self._pending: list[Ticket] = []
        #: what the process was told
        self._choices: Choices | None = None
        #: what was learned, still to be sent; and when that is to be dumped again (real)
        self._learned: dict[str, object] | None = None
        self._learn_at = 0.0
        self._memory = ArrivalMemory(MOST_JOBS)
        #: why there are no rollouts any more
        self._trouble = ""

    def meet(
        self, scheduler: Scheduler, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """Begin: ``clock`` is farm time, ``wake`` ends the scheduler's wait from another thread."""
        self._scheduler, self._clock, self._wake = scheduler, clock, wake
        self._plain = only_queues(scheduler.rules, list(scheduler.keeper.specs.values()))
        self.start()

    def start(self) -> None:
        """Start the process, if it was not: it takes a second or so to come up."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._converse, name="farm-rollouts", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the process."""
        self._trouble = "closed"
        self._closed.set()
        self._requests.put(None)
        self._program.close()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT)
            self._program.close()  # it was about to start

    def take(self, event: Event) -> None:
        """Learn from the farm's next event what arrives."""
        self._memory.observe(event)

    @property
    def too_dear(self) -> bool:
        """Whether rollouts take longer now than they are worth."""
        jobs, most = len(self._scheduler.jobs), MOST_IN_QUEUES if self._plain else MOST_AT_ALL
        return bool(self._trouble) or jobs > most

    def ask(self, jobs: Sequence[str], patience: float = PATIENCE) -> Ticket | None:
        """Ask about waiting jobs, in the farm's present state; None: rollouts are too dear.

        ``patience``: real seconds after which the reply is not waited for.
        """
        if self.too_dear:
            return None
        ticket = Ticket(jobs, self._poll, patience)
        self._pending.append(ticket)
        self._poll()
        return ticket

    def basis(self, job: Job) -> tuple[int, Source]:
        """Return how many run times of a job's kind are known, and what its own is drawn from."""
        known, spread = self._distribution.known_of(sort_of(job)), self._distribution.spread(job)
        if spread is None:
            return known, "estimate"
        return known, "kind" if known >= ENOUGH else "all kinds"

    # --- one request after the other ------------------------------------------------------------

    def _poll(self) -> None:
        with suppress(queue.Empty):
            self._take(self._replies.get_nowait())
            self._learn()  # at another turn than a snapshot, each takes its milliseconds
            return
        if self._pending and not self._sent and not self._busy.is_set():
            self._send()

    def _send(self) -> None:
        tickets, self._pending = self._pending, []
        jobs = {job: None for ticket in tickets for job in ticket.jobs if self._waits(job)}
        if not jobs or self.too_dear:
            for ticket in tickets:
                ticket.answered = True
            return
        scenario, choices = None, self._scheduler.rules.choices
        if choices != self._choices:
            scenario, self._choices = as_chosen(self._scenario, choices), choices
            self._learned = self._distribution.dump()
        snapshot = snapshot_of(self._scheduler, self._clock())
        recent = self._recent(snapshot)
        whole = not self._plain or recent is not None
        request = Request(
            # sizes are the scenario's then
            snapshot=msgspec.structs.replace(
                snapshot, choices=msgspec.structs.replace(choices, pools={})
            ),
            jobs=tuple(jobs),
            rollouts=min(self._count, WHOLE_ROLLOUTS) if whole else self._count,
            scenario=scenario,
            run_times="" if scenario is None else self.run_times,
            statistics=self._learned,
            recent=recent,
        )
        self._learned = None
        for ticket in tickets:
            ticket.at, ticket.jobs = snapshot.at, tuple(jobs)
        self._sent = tickets
        self._busy.set()
        self._requests.put(msgspec.json.encode(request))
        self.start()

    def _recent(self, snapshot: FarmSnapshot) -> RecentArrivals | None:
        """Return what arrived lately, if that comes again and matters, and can be afforded."""
        if len(self._scheduler.jobs) > MOST_AT_ALL:
            return None
        recent, specs = self._memory.recent(snapshot.at), self._scheduler.keeper.specs.values()
        if recent is None:
            return None
        jobs = [*(record.job for record in snapshot.waiting), *recent.jobs]
        return recent if matter(self._scheduler.rules, snapshot.choices, specs, jobs) else None

    def _waits(self, job: str) -> bool:
        state = self._scheduler.jobs.get(job)
        return state is not None and executing(state).slot is None

    def _learn(self) -> None:
        began = time.monotonic()
        if began >= self._learn_at:
            self._learned = self._distribution.dump()
            took = time.monotonic() - began
            self._learn_at = began + max(LEARNING_INTERVAL, SHARE * took)

    def _take(self, reply: Reply) -> None:
        if reply.trouble:
            self._trouble = reply.trouble
            if not self._closed.is_set():
                log.warning("estimates by the formula from now on: %s", reply.trouble)
        for ticket in self._sent:
            ticket.forecasts = dict(zip(ticket.jobs, reply.forecasts, strict=False))
            ticket.rollouts = reply.rollouts
            ticket.answered = True
        self._sent = []

    def _converse(self) -> None:
        """Pass requests to the process and replies back (in the other thread)."""
        decoder = msgspec.json.Decoder(Reply)
        with suppress(OSError):  # the first request says so
            self._program.start()
        while (request := self._requests.get()) is not None:
            try:
                reply = decoder.decode(self._program.reply(request))
            except (OSError, msgspec.MsgspecError) as error:
                reply = Reply(trouble=f"the process that makes rollouts: {error}")
            self._replies.put(reply)
            self._wake()
            self._closed.wait(min(LONGEST_REST, reply.took))
            self._busy.clear()
            self._wake()


def only_queues(rules: SchedulingRules, pools: Sequence[PoolSpec]) -> bool:
    """Return whether a farm is plain queues on fixed pools, which the fast method plays."""
    plain = rules.path is None and not rules.by_speed and rules.heavy_light is None
    none = (None, None, None)
    more = (p.provisioned or p.lost_at or (p.law, p.uses, p.lifetime) != none for p in pools)
    return plain and not rules.ends_together and not any(more)


class AffordableRollouts:
    """Asks the service, and the formula about jobs of which it knows nothing.

    ``formula`` None: it is asked anyway, under its own name.
    """

    rules = "rollout"
    in_steps = True

    def __init__(self, service: RolloutService, formula: FormulaForecaster | None) -> None:
        self.run_times = service.run_times
        self._service = service
        self._formula = formula
        self._found: dict[str, Forecast] = {}
        self.calibration = ForecastCalibration()

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn what arrives, and how right the rollouts were."""
        self._service.take(event)
        self.calibration.take(event, scheduler)

    def prepare(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> Steps:
        """Ask about those of the jobs that still wait; return the steps up to the replies."""
        waiting = [state.job.id for state in jobs if executing(state).slot is None]
        ticket = self._service.ask(waiting) if waiting else None
        return self._asking(ticket, scheduler, jobs, at)

    def _asking(
        self, ticket: Ticket | None, scheduler: Scheduler, jobs: Sequence[JobState], at: float
    ) -> Steps:
        self._found = {}
        if ticket is not None:
            while not ticket.done:
                yield True
            self._found = self._calibrated(ticket, scheduler, jobs)
        rest = [state for state in jobs if state.job.id not in self._found]
        if rest and self._formula is not None:
            yield from self._formula.prepare(scheduler, rest, at)

    def _calibrated(
        self, ticket: Ticket, scheduler: Scheduler, jobs: Sequence[JobState]
    ) -> dict[str, Forecast]:
        made = ticket.forecasts
        if ticket.rollouts == 1:  # the run times are known
            return made
        # of a job that has started this was heard already, and will not be again
        found = {job: msgspec.structs.replace(one, quantiles_at=()) for job, one in made.items()}
        waiting = [
            state for state in jobs if state.job.id in made and executing(state).slot is None
        ]
        names = [state.job.id for state in waiting]
        with_levels = self.calibration.calibrated(
            scheduler, waiting, ticket.at, [made[name] for name in names]
        )
        return found | dict(zip(names, with_levels, strict=True))

    def forecast(
        self, scheduler: Scheduler, jobs: Sequence[JobState], at: float
    ) -> list[Forecast | None]:
        """Return an estimate for each of these jobs, in order; ``prepare`` comes first."""
        return [
            self._found.get(state.job.id) or self._by_formula(scheduler, state, at)
            for state in jobs
        ]

    def _by_formula(self, scheduler: Scheduler, state: JobState, at: float) -> Forecast | None:
        if self._formula is None:
            return None
        (found,) = self._formula.forecast(scheduler, [state], at)
        return Forecast(found.dispatch_at, rules=self._formula.rules)
