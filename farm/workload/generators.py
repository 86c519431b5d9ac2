"""Generated jobs: single arrivals, and matrices released together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from farm.columns import Array, Coded, Floats
from farm.core.jobs.needs import needs_of
from farm.core.model import Job, Platform
from farm.scenario.workload import Arrivals, Matrices, NamedJob, Releases
from farm.workload.arrivals import instants, instants_of_several
from farm.workload.blocks import Block, Names, joined
from farm.workload.drawn_traits import Columns, Draws, Streams, longest, longest_rules, traits_adder
from farm.workload.streams import OfSeveral, chooser, drawn, uniforms

#: matrices that are drawn together
MATRICES = 64
#: more jobs than a matrix can have
PLACES = 1 << 32


def arrivals(
    source: Arrivals,
    prefix: str,
    platform: Platform | None,
    streams: Streams,
    horizon: float,
    given: Iterable[Floats] | None = None,
) -> Iterator[Block]:
    """Yield jobs that arrive one by one; ``given``: their arrivals, in place of the source's."""
    draw, name = _drawn_alone(source, platform, streams), f"{prefix}-{{:06d}}".format
    made = 1
    for arrived in given or instants(source, streams("arrivals"), horizon):
        numbers = serials(made, len(arrived))
        made += len(arrived)
        yield draw({"id": Names.by(name, numbers), "arrived_at": arrived})


def serials(first: int, count: int) -> Array:
    """Return the next serial numbers of jobs, in 32 bits while these suffice."""
    small = first + count <= np.iinfo(np.int32).max
    return np.arange(first, first + count, dtype=np.int32 if small else np.int64)


def arrivals_of_several(
    source: Arrivals,
    prefix: str,
    platform: Platform | None,
    streams: Sequence[Streams],
    horizon: float,
) -> tuple[Block, list[int]]:
    """Return the jobs of several runs, one after the other, and how many each of them has.

    ``streams``: those of each run. The source has no ``action``, which looks back at other jobs.
    """
    arrived = instants_of_several(
        source, [partial(of_run, "arrivals") for of_run in streams], horizon
    )
    counts = list(map(len, arrived))
    draw = _drawn_alone(
        source, platform, lambda name: OfSeveral([of(name) for of in streams], counts)
    )
    numbers = np.concatenate([np.arange(1, count + 1) for count in counts])
    names = Names.by(f"{prefix}-{{:06d}}".format, numbers)
    return draw({"id": names, "arrived_at": np.concatenate(arrived)}), counts


def matrices(
    source: Matrices,
    prefix: str,
    platform: Platform | None,
    streams: Streams,
    horizon: float,
    given: Iterable[Floats] | None = None,
) -> Iterator[Block]:
    """Yield the jobs of matrices by arrival; matrix 2's third job is ``name-0002-003``.

    ``given``: when the matrices are released, in place of the source's instants.
    """
    releases = given or instants(source, streams("arrivals"), horizon, MATRICES, MATRICES)
    if source.jobs is not None:
        yield from pipelines(source, source.jobs, prefix, platform, streams, releases)
        return
    draw, apart = _drawn(source, platform, streams), source.jobs_apart
    size = chooser(source.sizes, streams, "size")
    group_of = None if source.group is None else chooser(source.group, streams, "group")

    def name(number: int) -> str:
        return f"{prefix}-{number // PLACES:04d}-{number % PLACES + 1:03d}"

    made = 1
    later: list[Block] = []  # of incomplete matrices
    for released in releases:
        sizes = size(len(released)).mapped(int)
        matrix, begins = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
        place = np.arange(len(matrix)) - begins[matrix]
        names = [f"{prefix}-{made + number:04d}" for number in range(len(sizes))]
        columns: Columns = {
            "id": Names.by(name, (made + matrix) * PLACES + place),
            "arrived_at": released[matrix] + place * apart,
            "matrix": Coded(matrix, names),
        }
        if group_of is not None:
            groups = group_of(len(sizes))
            columns["group"] = Coded(groups.codes[matrix], groups.values)
        made += len(sizes)
        block = draw(columns)
        _mark_longest(block, source, released, begins)
        if apart:
            block = joined([*later, block])
            block = block.taken(np.argsort(block.array("arrived_at"), kind="stable"))
            complete = int(np.searchsorted(block.array("arrived_at"), released[-1], "right"))
            later = [block.taken(slice(complete, None))]
            block = block.taken(slice(complete))
        yield block
    yield from later


def pipelines(
    source: Matrices,
    named: Sequence[NamedJob],
    prefix: str,
    platform: Platform | None,
    streams: Streams,
    releases: Iterable[Floats],
) -> Iterator[Block]:
    """Yield the named jobs of matrices by arrival; matrix 2's third test is ``name-0002-test-3``.

    Each name has a stream of its own for service times, so that the draws of one do not depend on
    the others.
    """
    add = traits_adder(source, streams)
    platform_of = chooser(_platforms(source, platform), streams, "platform")
    common = source.service_time.quantiles_by_kind(list(source.kinds))
    times = [
        common[job.its_kind] if job.service_time is None else job.service_time.quantile_function()
        for job in named
    ]
    rngs = [streams(f"service_time {job.name}") for job in named]
    together = source.together()
    size, suffixes = len(together), [job.id for job in together]
    of_place = np.repeat(np.arange(len(named)), [job.count for job in named])
    group_of = chooser(source.group or {None: 1.0}, streams, "group")
    own_groups = [job.group for job in named]

    needs_of_run = NeedsOfRun(prefix, together)

    def name(number: int) -> str:
        return f"{prefix}-{number // PLACES:04d}-{suffixes[number % PLACES]}"

    made = 1
    for released in releases:
        count = len(released)
        matrix, place = np.divmod(np.arange(count * size), size)
        which = of_place[place]
        names = [f"{prefix}-{made + number:04d}" for number in range(count)]
        service = np.empty(count * size)
        for number, (quantile, rng) in enumerate(zip(times, rngs, strict=True)):
            some = which == number
            service[some] = drawn(quantile, uniforms(rng, int(some.sum())))
        platforms = platform_of(count * size)
        if any(job.platform is not None for job in named):
            platforms = Coded.of(
                [
                    drawn_one if (own := named[number].platform) is None else own.platform
                    for drawn_one, number in zip(platforms.tolist(), which.tolist(), strict=True)
                ]
            )
        numbers = (made + matrix) * PLACES + place
        columns: Columns = {
            "id": Names.by(name, numbers),
            "arrived_at": released[matrix],
            "matrix": Coded(matrix, names),
            "service_time": service,
            "kind": Coded(which, [job.its_kind for job in named]).distinct(),
            "platform": platforms,
            "needs": Names.by(needs_of_run, numbers),
            "needs_delay": np.array([job.needs_delay for job in named])[which],
        }
        if source.group is not None or any(own_groups):
            groups = group_of(count).tolist()
            columns["group"] = Coded.of(
                [own_groups[job] or groups[run] for run, job in zip(matrix, which, strict=True)]
            )
        made += count
        block = add(columns)
        _mark_longest(block, source, released, np.arange(count) * size)
        yield block


class NeedsOfRun:
    """What each job of a matrix needs: others of the same matrix.

    The jobs of a matrix stand together, so these are told by how far they are from it.
    """

    def __init__(self, prefix: str, together: Sequence[Job]) -> None:
        place_of = {job.id: place for place, job in enumerate(together)}
        self._prefix = prefix
        self._texts = [job.needs for job in together]
        #: of each job of a matrix: how far the jobs are that it needs, and the conditions
        self.needs = [
            [(place_of[need.job] - place, need.condition) for need in needs_of(job)]
            for place, job in enumerate(together)
        ]

    def __call__(self, number: int) -> tuple[str, ...]:
        """Return the needs of the job with this number."""
        texts = self._texts[number % PLACES]
        if not texts:
            return ()
        whole = f"{self._prefix}-{number // PLACES:04d}-"
        return tuple([whole + text for text in texts])


def _mark_longest(block: Block, source: Matrices, released: Floats, begins: Array) -> None:
    """Set ``heavy`` and ``memory_heavy`` where the longest of a matrix, or of a batch, have it."""
    for name, rule in longest_rules(source).items():
        groups = begins
        if rule.among == "batch":
            groups = begins[np.flatnonzero(np.diff(released, prepend=-1.0))]
        block.columns[name] = longest(
            block.array("service_time"), rule.longest or 0.0, groups.tolist()
        )


def _drawn_alone(
    source: Arrivals, default: Platform | None, streams: Draws
) -> Callable[[Columns], Block]:
    """Return a function that draws jobs each of which has a group of its own draw."""
    draw = _drawn(source, default, streams)
    if source.group is None:
        return draw
    group_of = chooser(source.group, streams, "group")
    return lambda columns: draw({**columns, "group": group_of(len(columns["arrived_at"]))})


def _drawn(
    source: Releases, default: Platform | None, streams: Draws
) -> Callable[[Columns], Block]:
    """Return a function that draws jobs: first the kind, as the service time may depend on it."""
    add = traits_adder(source.model_copy(update={"kind": None}), streams)
    weights = source.kind or {"job": 1.0}
    kind_of = chooser(weights, streams, "kind")
    quantiles = source.service_time.quantiles_by_kind(list(weights))
    rng = streams("service_time")
    platform_of = chooser(_platforms(source, default), streams, "platform")

    def draw(columns: Columns) -> Block:
        count = len(columns["arrived_at"])
        kind, numbers = kind_of(count), uniforms(rng, count)
        if len({id(quantiles[one]) for one in kind.values}) == 1:
            times = drawn(quantiles[kind.values[0]], numbers)
        else:
            times = np.empty(count)
            for code, one in enumerate(kind.values):
                some = kind.codes == code
                times[some] = drawn(quantiles[one], numbers[some])
        columns["service_time"] = times
        columns["platform"], columns["kind"] = platform_of(count), kind
        return add(columns)

    return draw


def _platforms(source: Releases, default: Platform | None) -> dict[Platform, float]:
    if source.platform is None:
        return {default or Platform(): 1.0}
    weights: dict[Platform, float] = {}
    for demand in source.platform:
        weights[demand.platform] = weights.get(demand.platform, 0.0) + demand.weight
    return weights
