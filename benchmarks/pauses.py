"""How long a live farm's reports wait for something else: estimates, metrics, reports to others.

1,000 builders, played by two hosts, process ``--waiting`` jobs, in one queue and in a fair-share
tree; 50 jobs end and 50 come every second. Each farm runs twice: bare, and with every submission
estimated, metrics published and scraped twice a second. Between two batches of reports the
scheduler's thread does other work; the processor milliseconds of each piece are "aside", those of
reading, deciding on and committing a batch are "batch".

    python -m benchmarks.pauses [--waiting 10000,100000] [--seconds 30]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from farm.app.api import load_scenario
from farm.core.commands import Command
from farm.core.driver import World
from farm.core.events import Event
from farm.core.model import Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import EstimatingWorld
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.host_processes import HostProcesses
from farm.live.live_options import LiveOptions
from farm.live.operating.control_plane import ControlPlane
from farm.live.run import Watchers, run_live
from farm.live.wire.pool_report import FarmStatus
from farm.live.world import LiveWorld
from farm.metrics.exporter import MetricsServer
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import Series

BUILDERS, HOSTS, RATE = 1_000, 2, 50.0
PLATFORM = Platform("amd64", True)
SCRAPER = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1]).read()
    time.sleep(0.5)
"""


class Watch(Series):
    """A meter of the scheduler's thread in processor milliseconds, once the farm is busy."""

    def __init__(self) -> None:
        super().__init__()
        self.asides: list[float] = []
        self.batches: list[float] = []
        self.counts = False
        self._began = 0.0

    def observe(self, name: str, *_: object) -> None:
        if name == "farm_scheduler_cycle_seconds":
            self._note(self.batches)
        elif name == "farm_scheduler_aside_seconds":
            self._note(self.asides)

    def _note(self, times: list[float]) -> None:
        now = time.thread_time()
        if self.counts:
            times.append(1000 * (now - self._began))
        self._began = now


def job(number: int) -> Job:
    """Return the n-th job: 10 to 30 s, 20 s on average."""
    return Job(
        id=f"j{number}",
        service_time=10.0 + number % 21,
        declared_time=10.0 + number % 21,
        kind=f"kind-{number % 500}",
        platform=PLATFORM,
        attributes={"team": f"team-{number % 30}", "user": f"user-{number % 300}"},
    )


def load(waiting: int, seconds: float) -> Iterator[tuple[float, tuple[Job, ...]]]:
    """Yield a long queue, then one job after the other."""
    first = waiting + BUILDERS
    for begin in range(0, first, 100):
        yield 0.0, tuple(job(n) for n in range(begin, min(first, begin + 100)))
    for number in range(int(seconds * RATE)):
        yield number / RATE, (job(first + number),)


def run(rules: SchedulingRules, waiting: int, seconds: float, *, watched: bool) -> Watch:
    """Run one farm; return the times of its scheduler's thread."""
    pools = [PoolSpec(name="pool", processors=("amd64",), builders=BUILDERS)]
    scheduler = Scheduler(rules, RuntimeDistribution(make_estimator("declared")), pools)
    controls: list[ControlPlane] = []
    metrics = FarmMetrics(scheduler, in_steps=True) if watched else None
    watch = Watch()

    def around(world: LiveWorld) -> World:
        controls.append(ControlPlane(world, scheduler, load_scenario("mm1"), long_lived=True))
        if not watched:
            return world
        forecaster = FormulaForecaster(RULES["launchpad"], "declared")
        made = EstimatingWorld(world, scheduler, [forecaster], add_event=world.add_event)
        world.add_step(made.step)
        return made

    def up(world: LiveWorld, _: HostProcesses) -> None:
        if metrics is not None:
            world.add_step(metrics.step)
        threading.Thread(target=times, args=(world,), daemon=True).start()

    def times(world: LiveWorld) -> None:
        while world.status().waiting < waiting:
            time.sleep(0.1)
        time.sleep(2.0)
        watch.counts = True
        time.sleep(seconds)
        watch.counts = False
        world.stop()
        world.stop()

    def observe(event: Event, commands: Sequence[Command]) -> None:
        controls[0].observe(event, commands)
        if metrics is not None:
            metrics.observe(event, commands)

    def progress(status: FarmStatus) -> None:
        if metrics is not None:
            metrics.publish(status.at, hosts=status.hosts, delay=status.worst_delay)

    with ExitStack() as stack:
        if metrics is not None:
            server = stack.enter_context(MetricsServer(metrics.readings, 0))
            scraper = subprocess.Popen([sys.executable, "-c", SCRAPER, server.url])
            stack.callback(scraper.wait)
            stack.callback(scraper.kill)
        run_live(
            scheduler,
            pools,
            load(waiting, 10 * seconds),
            LiveOptions(hosts=HOSTS),
            Watchers(
                observe=observe,
                progress=progress,
                on_up=up,
                on_tick=lambda _: controls[0].turn(),
                meter=watch,
                around=around,
            ),
        )
    return watch


def shown(name: str, times: list[float]) -> str:
    """Return percentiles on one line."""
    times = sorted(times)
    marks = [f"{times[int(len(times) * level)]:.2f}" for level in (0.5, 0.99, 0.999)]
    return f"{name} {' / '.join(marks)} / {times[-1]:.2f} ms"


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", default="10000")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    fair = SchedulingRules(path=PathExtractor(["team", "user"]), make_queue=FairShareQueue)
    print("uninterrupted processor time of the scheduler's thread: p50 / p99 / p99.9 / most")
    for waiting in map(int, options.waiting.split(",")):
        for name, rules in (("one queue", SchedulingRules()), ("fair share", fair)):
            print(f"{waiting:,} jobs wait, {name}")
            for watched in (False, True):
                watch = run(rules, waiting, options.seconds, watched=watched)
                print(
                    f"  {'estimates, scrapes' if watched else 'bare':<18}  "
                    f"{shown('aside', watch.asides)};  {shown('batch', watch.batches)};  "
                    f"{sum(watch.asides) / options.seconds / 10:.1f} % aside",
                    flush=True,
                )


if __name__ == "__main__":
    main()
