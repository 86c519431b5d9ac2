"""The thesis's figures 4.1 and 5.1 to 5.12, its tables and its result table, from our own plays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median, pstdev

import msgspec

from farm.app.studies.thesis_model import METRICS, POLICY_OF, Numbers, Plan, job_sets, play
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw, ThreadSlowdown
from farm.core.contention.overload_risk import expected_slowdown
from farm.core.model import Job
from farm.results.figures.lines import Figure

#: slots of a builder in section 5.3, and of all builders together in section 5.1
MODEL_SLOTS = range(1, 17)
LIVE_SLOTS = (5, 10, 20, 30, 40, 60, 80, 100)
#: between these slots tables 5.1, 5.2 and the result table are taken (section 5.3)
TABLE_SLOTS = range(5, 16)
#: section 5.4, of response time, makespan and matrix response time
THESIS_SAYS = {
    "LJF": ("Bad", "Best", "Good"),
    "SJF": ("Best", "Bad", "Worst"),
    "Random": ("Medium", "Medium", "Bad"),
    "FIFO": ("Bad", "Medium", "Medium"),
    "LJF-aging": ("Bad", "Medium", "Good"),
    "SJF-aging": ("Bad", "Bad", "Medium"),
}
Plays = Mapping[tuple[str, int], Sequence[Numbers]]
"""By policy and slots: the numbers of each job set, in one order."""
Tell = Callable[[str], None]


class Cells(msgspec.Struct, frozen=True):
    """A table: its title, the names of its columns, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Study(msgspec.Struct, frozen=True):
    """All figures and tables, in the thesis's order."""

    runs: int
    figures: tuple[Figure, ...]
    tables: tuple[Cells, ...]


def study(runs: int, tell: Tell = lambda _: None) -> Study:
    """Play everything on ``runs`` job sets (at most 1000)."""
    figures = [_figure_4_1()]
    tell("a single matrix")
    single = _played(job_sets(runs, 1, 100), LIVE_SLOTS, _sleeping)
    figures += _figures(single, LIVE_SLOTS, {"5.1": 0, "5.2": 1}, "a single matrix of 100 jobs")
    tell("five matrices, 30 s apart")
    several = _played(job_sets(max(1, runs // 5), 5, 100, 30.0), LIVE_SLOTS, _sleeping)
    names = {"5.3": 0, "5.4": 2, "5.5": 1}
    figures += _figures(several, LIVE_SLOTS, names, "five matrices, 30 s apart")
    figures.append(_figure_5_6())
    tables: list[Cells] = []
    kept: list[Plays] = []
    for number, law in enumerate((None, ContentionLaw(THESIS_TABLE))):
        said = "with slowdown" if law else "without slowdown"
        tell(f"the model, {said}")
        plays = _played(job_sets(runs), MODEL_SLOTS, partial(_model, law))
        first = 7 + 3 * number
        places = {f"5.{first + place}": place for place in range(3)}
        figures += _figures(plays, MODEL_SLOTS, places, said)
        tables.append(_spread(f"Table 5.{number + 1}: standard deviation, {said}", plays))
        tables += [_ratios(f"{METRICS[place]}, {said}", plays, place) for place in range(3)]
        kept.append(plays)
    return Study(runs, tuple(figures), (*tables, _result_table(kept)))


def _sleeping(slots: int) -> Plan:
    """Jobs that sleep cost each other nothing, so every slot may be a builder of its own."""
    return Plan(slots, 1, aging="linear")


def _model(law: ContentionLaw | None, slots: int) -> Plan:
    return Plan(2, slots, law)


def _played(
    sets: Sequence[Sequence[Job]], slots: Sequence[int], plan: Callable[[int], Plan]
) -> Plays:
    return {
        (name, count): [play(jobs, name, plan(count)) for jobs in sets]
        for count in slots
        for name in POLICY_OF
    }


def _figures(
    plays: Plays, slots: Sequence[int], places: Mapping[str, int], said: str
) -> list[Figure]:
    """Draw medians over the job sets."""
    return [
        Figure(
            f"Figure {name}: {METRICS[place]}, {said} (median)",
            {
                policy: [(n, median(one[place] for one in plays[policy, n])) for n in slots]
                for policy in POLICY_OF
            },
            ("slots", "seconds"),
        )
        for name, place in places.items()
    ]


def _figure_4_1() -> Figure:
    lines = {
        f"p = {p:g}": [(n, expected_slowdown(n, p, THESIS_TABLE.slowdown)) for n in MODEL_SLOTS]
        for p in (0.1, 0.2, 0.3, 0.4, 0.5)
    }
    return Figure("Figure 4.1: slowdown to expect, f(n, p)", lines, ("slots", "slowdown"))


def _figure_5_6() -> Figure:
    """Draw the reference job (a thread) beside heavy jobs of four threads each on 8 threads."""
    law = ThreadSlowdown(8.0, 4)
    points = [(float(k), max(1.0, (4 * k + 1) / law.cores)) for k in range(11)]
    axes = ("heavy jobs", "times as long")
    return Figure("Figure 5.6: the reference job beside heavy jobs", {"threads": points}, axes)


def _ratios(title: str, plays: Plays, place: int) -> Cells:
    """Put medians, means and paired ratios to Random side by side."""
    slots = [n for n in MODEL_SLOTS if n in (1, 2, 4, 6, 8, 12, 16)]
    return Cells(
        f"{title}: median, mean, geometric mean of the ratio to Random on the same jobs",
        ("slots", *POLICY_OF),
        tuple(
            (str(n), *(_cell(plays[p, n], plays["Random", n], place) for p in POLICY_OF))
            for n in slots
        ),
    )


def _cell(found: Sequence[Numbers], random: Sequence[Numbers], place: int) -> str:
    values = [one[place] for one in found]
    ratio = _ratio(values, [one[place] for one in random])
    return f"{median(values):.1f}, {fmean(values):.1f} ({ratio:.2f})"


def _ratio(values: Sequence[float], others: Sequence[float]) -> float:
    return math.exp(fmean(math.log(a / b) for a, b in zip(values, others, strict=True)))


def _spread(title: str, plays: Plays) -> Cells:
    rows = tuple(
        (
            policy,
            *(
                f"{fmean(pstdev(one[place] for one in plays[policy, n]) for n in TABLE_SLOTS):.1f}"
                for place in range(3)
            ),
        )
        for policy in POLICY_OF
    )
    return Cells(f"{title} (mean over 5 to 15 slots)", ("policy", *METRICS), rows)


def _result_table(kept: Sequence[Plays]) -> Cells:
    """Rank the policies by their paired ratios to Random, over both models and 5 to 15 slots."""
    ratios = {
        (policy, place): fmean(
            _ratio(
                [one[place] for one in plays[policy, n]],
                [one[place] for one in plays["Random", n]],
            )
            for plays in kept
            for n in TABLE_SLOTS
        )
        for policy in POLICY_OF
        for place in range(3)
    }
    rows = []
    for policy, said in THESIS_SAYS.items():
        cells = []
        for place, word in zip((1, 0, 2), said, strict=True):
            own = ratios[policy, place]
            rank = 1 + sum(ratios[other, place] < own for other in POLICY_OF)
            cells.append(f"{word}; {rank}. of 6 ({own:.2f})")
        rows.append((policy, *cells))
    return Cells(
        "Section 5.4: what the thesis says; our rank, and the ratio to Random",
        ("policy", "mean response time", "makespan", "mean matrix response time"),
        tuple(rows),
    )
