"""The jobs that arrive during a rollout, drawn from those that were submitted lately.

Where jobs overtake others, or a provisioner goes by demand, waiting jobs depend on what is yet to
come. What came lately comes again: submissions at the recent rate, each a copy of a recent one, so
teams, platforms, kinds and sizes of matrices keep their shares. When that rate ends is not known.
What has lasted for long will probably last longer: looked at at any time it lasts t seconds more
with the probability age / (age + t) (Gott, Implications of the Copernican principle, Nature 363,
1993). But most jobs wait when arrivals are about to end, and long: after the part x of its arrivals
a busy farm has seen some x^4 of all waiting. So each rollout draws its end with the fourth power.
Under fair share it is a smaller one: jobs that a party submits at once wait on while the others,
whose jobs go first, submit theirs at their old rate.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator

import msgspec

from farm.core.jobs.needs import need_of, renamed
from farm.core.model import Job
from farm.core.policies import fifo
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Choices, SchedulingRules
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.sim.rollouts.draws import ServiceTimes
from farm.workload.streams import stream

#: the power above, and that under fair share
POWER, POWER_OF_SHARES = 4.0, 1.0
#: the most that counts as the age of a rate (s): days have nights
OLDEST = 43_200.0


def last_at(
    recent: RecentArrivals, rules: SchedulingRules, seed: int, number: int, at: float
) -> float:
    """Return until when jobs arrive in a rollout as they did before this instant."""
    power = POWER if rules.path is None else POWER_OF_SHARES
    age = min(max(at, recent.time), OLDEST)
    u = stream(seed, "end of arrivals", number).random()
    return at + age * (math.pow(1.0 - u, -1.0 / power) - 1.0)


def drawn(
    recent: RecentArrivals, times: ServiceTimes, seed: int, number: int, at: float
) -> Iterator[tuple[float, tuple[Job, ...]]]:
    """Yield the arrivals of a rollout after an instant: a Poisson process.

    ``times`` are of the jobs of ``recent``. How often they come is not known either: the rate is
    drawn from what the intervals between the recent submissions leave open (a gamma distribution).
    One of these is why there is an estimate at all: it says nothing of the rate.
    """
    rng = stream(seed, "later arrivals", number)
    submissions, count = recent.submissions, len(recent.submissions)
    rate = rng.gammavariate(count - 1, 1.0 / recent.time)
    begins, begin = [], 0
    for jobs in submissions:
        begins.append(begin)
        begin += len(jobs)
    serial = 0
    while True:
        at -= math.log1p(-rng.random()) / rate
        place = int(rng.random() * count)
        serial += 1
        names = {job.id for job in submissions[place]}
        yield (
            at,
            tuple(
                _copy(job, names, serial, times.drawn(number, begins[place] + nth, rng.random()))
                for nth, job in enumerate(submissions[place])
            ),
        )


def _copy(job: Job, names: Container[str], serial: int, service_time: float) -> Job:
    """Return a job like this one: no part of what is there, and not known to fail.

    Of its needs it keeps those among ``names``, the jobs of its submission.
    """
    together = [text for text in job.needs if need_of(text).job in names]
    kept = msgspec.structs.replace(job, needs=tuple(together))
    return msgspec.structs.replace(
        job,
        id=f"{job.id}~like-{serial}",
        needs=renamed(kept.needs, f"{{}}~like-{serial}".format),
        service_time=service_time,
        arrived_at=None,
        matrix=None if job.matrix is None else f"{job.matrix}~like-{serial}",
        action=None,
        fails=False,
    )


def matter(
    rules: SchedulingRules,
    choices: Choices | None,
    pools: Iterable[PoolSpec],
    jobs: Iterable[Job],
) -> bool:
    """Return whether later arrivals can change when one of these jobs is dispatched.

    ``choices``: those made while the farm ran. Under first in, first out on fixed pools they can
    not: nothing overtakes a job.
    """
    policy = rules.policy if choices is None else rules.policy_of(choices) or rules.policy
    in_order = policy is fifo.key and len({job.level for job in jobs}) <= 1
    whole = rules.path is None and rules.heavy_light is None
    return not (in_order and whole) or any(pool.provisioned for pool in pools)
