"""Generated jobs: single arrivals, and matrices released together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count, groupby

from farm.core.model import Job, Platform
from farm.scenario.workload import Arrivals, Matrices, Releases
from farm.workload.alike import AlikeJobs
from farm.workload.arrivals import instants
from farm.workload.streams import chooser
from farm.workload.traits import Fields, Streams, job_maker, mark_longest, trait_steps


def arrivals(
    source: Arrivals, prefix: str, platform: Platform | None, streams: Streams, horizon: float
) -> Iterable[Job]:
    """Return jobs that arrive one by one, made on demand."""
    arrived = instants(source, streams("arrivals"), horizon)
    kinds, platforms = source.kind or {"job": 1.0}, _platforms(source, platform)
    if len(kinds) == len(platforms) == 1 and not trait_steps(_without_kind(source), streams):
        (kind,), (only,) = kinds, platforms
        quantile = source.service_time.quantiles_by_kind([kind])[kind]
        uniform = streams("service_time").random
        times = ((at, quantile(uniform())) for at in arrived)
        return AlikeJobs(times, f"{prefix}-{{:06d}}".format, {"kind": kind, "platform": only})
    make = _drawn(source, platform, streams)
    numbered = enumerate(arrived, start=1)
    return (make(f"{prefix}-{number:06d}", at, None) for number, at in numbered)


def matrices(
    source: Matrices, prefix: str, platform: Platform | None, streams: Streams, horizon: float
) -> Iterator[Job]:
    """Yield the jobs of matrices in order of arrival; matrix 2's third job is ``name-0002-003``."""
    make, apart = _drawn(source, platform, streams), source.jobs_apart
    size = chooser(source.size, streams("size"))
    released = enumerate(instants(source, streams("arrivals"), horizon), start=1)
    made = count()
    later: list[tuple[float, int, Job]] = []  # of incomplete matrices
    for at, together in groupby(released, key=lambda pair: pair[1]):
        while later and later[0][0] <= at:
            yield heappop(later)[2]
        batch: list[Job] = []
        for number, _ in together:
            name = f"{prefix}-{number:04d}"
            jobs = [
                make(f"{name}-{place + 1:03d}", at + place * apart, name) for place in range(size())
            ]
            batch.extend(mark_longest(jobs, source, "matrix"))
        for job in mark_longest(batch, source, "batch"):
            heappush(later, (job.arrived_at or 0.0, next(made), job))
    yield from (job for _, _, job in sorted(later))


def _drawn(
    source: Releases, default: Platform | None, streams: Streams
) -> Callable[[str, float, str | None], Job]:
    """Return a function that draws a job: first the kind, as the service time may depend on it."""
    make = job_maker(_without_kind(source), streams)
    kind_of = chooser(source.kind or {"job": 1.0}, streams("kind"))
    quantiles = source.service_time.quantiles_by_kind(list(source.kind or {"job": 1.0}))
    uniform = streams("service_time").random
    platform_of = chooser(_platforms(source, default), streams("platform"))

    def draw(job_id: str, at: float, matrix: str | None) -> Job:
        kind = kind_of()
        fields: Fields = {
            "id": job_id,
            "service_time": quantiles[kind](uniform()),
            "platform": platform_of(),
            "arrived_at": at,
            "kind": kind,
            "matrix": matrix,
        }
        return make(fields)

    return draw


def _without_kind(source: Releases) -> Releases:
    return source.model_copy(update={"kind": None})


def _platforms(source: Releases, default: Platform | None) -> dict[Platform, float]:
    if source.platform is None:
        return {default or Platform(): 1.0}
    weights: dict[Platform, float] = {}
    for demand in source.platform:
        weights[demand.platform] = weights.get(demand.platform, 0.0) + demand.weight
    return weights
