"""How well laws predict jobs that burn: heavy and light ones in company, timed and computed.

What a calibration measures are heavy jobs beside each other; on a farm light ones share the builder
with them. So some companies of both are burnt as well, and each law that the calibration gives is
held to the mean of their times.
"""

from __future__ import annotations

import contextlib
import queue
import statistics
import time
from collections.abc import Mapping
from typing import NamedTuple

from farm.core.contention.laws import ContentionLaw, Load, SlowdownTable, ThreadSlowdown
from farm.core.errors import RunError
from farm.scenario.calibration_keys import Calibration, ExampleError, Law
from workers.burn.burning_jobs import Burners, BurnSettings, Burnt


class Company(NamedTuple):
    """Jobs that begin on one builder at the same moment."""

    heavy: int
    light: int


#: as on a builder with three slots
COMPANIES = (Company(heavy=1, light=2), Company(heavy=2, light=1))
#: times that each is burnt; the median counts
TIMES = 3


def example_errors(
    found: Calibration, work: float, cores: list[int] | None, limit: float
) -> tuple[ExampleError, ...]:
    """Return how far each law of a calibration is off companies that burn on this machine.

    ``work``: seconds of an idle core in each thread; ``cores``: the processors that they may use;
    ``limit``: real seconds after which none begins. Empty: there was no time for it.
    """
    deadline = time.monotonic() + limit
    measured: dict[Company, list[float]] = {company: [] for company in COMPANIES}
    settings = BurnSettings(burner="own", nice=0, rates=dict(found.rates))
    with contextlib.closing(Burners(settings)) as burners:
        for _ in range(TIMES):
            for company, times in measured.items():
                if time.monotonic() > deadline:
                    return ()
                times.append(_burnt(burners, company, found.threads, work, cores))
    truth = statistics.fmean(statistics.median(times) for times in measured.values())
    errors = []
    for law, formula in laws_of(found).items():
        predicted = statistics.fmean(
            time_by(formula, company, found.threads, work) for company in COMPANIES
        )
        errors.append(ExampleError(law=law, error=round(predicted / truth - 1, 4)))
    return tuple(errors)


def laws_of(found: Calibration) -> Mapping[Law, ContentionLaw]:
    """Return the laws that a calibration gives."""
    given: dict[Law, ContentionLaw] = {"slowdown": ContentionLaw(SlowdownTable(found.slowdown))}
    if (cores := found.measured_cores) is not None:
        given["threads"] = ContentionLaw(ThreadSlowdown(cores, found.threads))
    return given


def time_by(law: ContentionLaw, company: Company, threads: int, work: float) -> float:
    """Return how long the jobs of a company take by a law.

    All have the same work in each thread and advance alike, so they end at the same moment.
    """
    load = Load(sum(company), company.heavy, threads=company.heavy * threads + company.light)
    return work * law.slowdown(load)


def _burnt(
    burners: Burners, company: Company, threads: int, work: float, cores: list[int] | None
) -> float:
    """Return the mean real time of the jobs of a company."""
    ended: queue.SimpleQueue[Burnt] = queue.SimpleQueue()
    for number in (threads,) * company.heavy + (1,) * company.light:
        burners.start("stress", work, number, ended.put, cores=cores)
    times = []
    for _ in range(sum(company)):
        burnt = ended.get()
        if burnt.error is not None:
            raise RunError(f"a job of the example failed: {burnt.error}")
        times.append(burnt.real)
    return statistics.fmean(times)
