"""The thesis's claims, each with the result of the simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, count, groupby, pairwise
from typing import NamedTuple

import numpy as np

from farm.core.contention.laws import THESIS_TABLE
from farm.core.model import Job
from farm.results.figures.page import PageTable
from farm_studies.thesis.evaluation import TABLE_SLOTS, Evaluation, spread
from farm_studies.thesis.job_sets import model_sets
from farm_studies.thesis.model import (
    MAKESPAN,
    MATRIX_RESPONSE,
    METRICS,
    POLICY_OF,
    RESPONSE,
    SECONDS,
    Contention,
    Plays,
    play_cases,
    pool,
)

#: ratios this close count as equal: runs of a thousand sets differ as much
SAME = 0.01
#: section 6.2: the improvement of Random's makespan without slowdown, and with it
THESIS_GAINS = (0.64, 0.22)
#: section 6.3: this many are "not very many", half of what figure 5.6 goes up to
FEW_HEAVY_JOBS = 5

VERDICTS = {True: "reproduced", False: "not reproduced", None: "in part"}


class Claim(NamedTuple):
    """A claim of the thesis, its section, the result here, and whether it holds; None: in part."""

    where: str
    says: str
    here: str
    holds: bool | None


def claims_table(found: Evaluation) -> PageTable:
    """Return all claims as a table, in the thesis's order."""
    groups = (_jenkins_single, _jenkins_several, _load, _model, _discussion)
    claims = [claim for group in groups for claim in group(found)]
    rows = [(*claim[:3], VERDICTS[claim.holds]) for claim in claims]
    head = ("section", "the thesis says", "here", "verdict")
    return PageTable("Claim by claim", head, rows, words=True)


def _where(
    end: Callable[[Iterable[float]], float], plays: Plays, policy: str, measure: int
) -> list[float]:
    """Return the cases in which a policy is the best one (``min``), or the worst, or nearly so."""
    ends = map(end, zip(*(plays.ratios(one, measure) for one in plays.policies), strict=True))
    cases = zip(plays.xs, plays.ratios(policy, measure), ends, strict=True)
    return [x for x, ratio, least in cases if abs(ratio - least) <= 1e-9]


def _runs(xs: Sequence[float], of: Sequence[float]) -> str:
    """Format cases as ranges: 1 to 6, 9."""
    if not xs:
        return "none"
    if len(xs) == len(of):
        return f"every number of slots ({of[0]:g} to {of[-1]:g})"
    groups = [[*group] for chosen, group in groupby(of, lambda x: x in xs) if chosen]
    ranges = [f"{x[0]:g}" if len(x) == 1 else f"{x[0]:g} to {x[-1]:g}" for x in groups]
    return f"{', '.join(ranges)} slots"


def _range(found: Sequence[float]) -> str:
    return f"{min(found):.2f} to {max(found):.2f}"


def _all_or_some(holds: Sequence[bool]) -> bool | None:
    return all(holds) or (None if any(holds) else False)


def _best_everywhere(where: str, says: str, policy: str, measure: int, *plays: Plays) -> Claim:
    leads = [(_where(min, one, policy, measure), one.xs) for one in plays]
    ranges = dict.fromkeys(_runs(lead, xs) for lead, xs in leads)
    holds = all(len(lead) == len(xs) for lead, xs in leads)
    return Claim(where, says, f"best at {'; '.join(ranges)}", holds)


def _jenkins_single(found: Evaluation) -> Iterable[Claim]:
    plays = found.single
    yield _best_everywhere("5.1.5", "LJF has the best makespan (5.1)", "LJF", MAKESPAN, plays)
    means = [plays.mean("LJF", x, MAKESPAN) for x in plays.xs]
    flat = next(x for x, at in zip(plays.xs, means, strict=True) if at <= means[-1] * (1 + SAME))
    yield Claim(
        "5.1.5",
        "after 20 slots LJF's makespan falls no more: the longest jobs bound it",
        f"within 1 % of its least from {flat:g} slots on",
        flat <= 20,
    )
    ratios = zip(*(plays.ratios(policy, MAKESPAN) for policy in plays.policies), strict=True)
    gaps = [max(each) - min(each) for each in ratios]
    yield Claim(
        "5.1.5",
        "the policies differ less the more slots there are",
        f"makespans differ by {gaps[0]:.0%} of Random's at {plays.xs[0]:g} slots, "
        f"by {gaps[-1]:.0%} at {plays.xs[-1]:g}",
        all(b <= a + SAME for a, b in pairwise(gaps)),
    )
    sjf, ljf = _where(min, plays, "SJF", RESPONSE), _where(max, plays, "LJF", RESPONSE)
    yield Claim(
        "5.1.5",
        "SJF has the best mean response time, LJF a very bad one (5.2)",
        f"SJF best at {_runs(sjf, plays.xs)}; LJF worst at {_runs(ljf, plays.xs)}; at 5 slots "
        f"{plays.ratio('SJF', 5.0, RESPONSE):.2f} and {plays.ratio('LJF', 5.0, RESPONSE):.2f} "
        "of Random's",
        len(sjf) == len(ljf) == len(plays.xs),
    )
    apart = plays.ratios("LJF", RESPONSE, "SJF")
    yield Claim(
        "5.1.5",
        "how much worse LJF's mean response time is than SJF's is more apparent the fewer slots "
        "there are",
        f"LJF's is {apart[0]:.1f} times SJF's at {plays.xs[0]:g} slots, {apart[-1]:.1f} times at "
        f"{plays.xs[-1]:g}",
        all(b <= a + SAME for a, b in pairwise(apart)),
    )
    between = [
        x
        for x in plays.xs
        if _lies_between(plays, x, MAKESPAN, "LJF", "SJF")
        and _lies_between(plays, x, RESPONSE, "SJF", "LJF")
    ]
    yield Claim(
        "6.1.1",
        "no policy is best in makespan and in response time: FIFO and Random lie between LJF and "
        "SJF in both",
        f"between them at {_runs(between, plays.xs)}",
        _all_or_some([x in between for x in plays.xs]),
    )
    fifo = [*plays.ratios("FIFO", MAKESPAN), *plays.ratios("FIFO", RESPONSE)]
    yield Claim(
        "5.1.5",
        "FIFO and Random perform equally on a single matrix",
        f"FIFO is {_range(fifo)} of Random's",
        all(abs(ratio - 1) < 0.05 for ratio in fifo),
    )


def _lies_between(plays: Plays, slots: float, measure: int, best: str, worst: str) -> bool:
    """Return whether FIFO and Random are no better than one policy and no worse than another."""
    low, high = (plays.ratio(policy, slots, measure) for policy in (best, worst))
    middle = [plays.ratio(policy, slots, measure) for policy in ("FIFO", "Random")]
    return all(low - SAME <= ratio <= high + SAME for ratio in middle)


def _jenkins_several(found: Evaluation) -> Iterable[Claim]:
    plays = found.several
    yield _best_everywhere("5.1.6", "LJF has the best makespan (5.3)", "LJF", MAKESPAN, plays)
    aged = plays.ratios("LJF-aging", MAKESPAN, "LJF")
    yield Claim(
        "5.1.6",
        "ageing makes LJF's makespan a little longer",
        f"{_range(aged)} of LJF's",
        1 < max(aged) < 1.1 and min(aged) > 1 - SAME,
    )
    says = "LJF-aging is consistently the best in mean matrix response time (5.4)"
    yield _best_everywhere("5.1.6", says, "LJF-aging", MATRIX_RESPONSE, plays)
    few, ratios = plays.xs[0], plays.ratios("SJF-aging", MATRIX_RESPONSE)
    worst = _runs(_where(max, plays, "SJF", MAKESPAN), plays.xs)
    better = [x for x, ratio in zip(plays.xs, ratios, strict=True) if ratio < 1 - SAME]
    yield Claim(
        "5.1.6",
        "SJF, the worst in makespan, does well in matrix response time once it is aged",
        f"SJF worst in makespan at {worst}; SJF-aging better than Random at "
        f"{_runs(better, plays.xs)} ({ratios[0]:.2f} of Random's at {few:g})",
        len(better) == len(plays.xs) or (None if better else False),
    )
    lost = plays.ratios("SJF-aging", RESPONSE, "SJF")
    leads = _where(min, plays, "SJF", RESPONSE)
    yield Claim(
        "5.1.6",
        "SJF has the best mean response time, and loses that advantage by ageing (5.5)",
        f"SJF best at {_runs(leads, plays.xs)}; SJF-aging takes {lost[0]:.1f} times as long as "
        f"SJF at {few:g} slots, {lost[-1]:.1f} times at {plays.xs[-1]:g}",
        len(leads) >= len(plays.xs) - 1 and lost[0] > 1.5,
    )
    fifo = plays.ratios("FIFO", MATRIX_RESPONSE)
    rivals = ("Random", "LJF", "SJF", "SJF-aging")
    ahead = [
        x
        for x in plays.xs
        if all(plays.ratio("FIFO", x, MATRIX_RESPONSE, one) <= 1 + SAME for one in rivals)
    ]
    yield Claim(
        "6.1.2",
        "FIFO is quite good in matrix response time: no jobs of a matrix are left behind",
        f"{_range(fifo)} of Random's; the best but for LJF-aging at {_runs(ahead, plays.xs)}",
        all(ratio < 1 + SAME for ratio in fifo) and (True if ahead else None),
    )
    ratios = [ratio for p in ("LJF", "SJF") for ratio in plays.ratios(p, MATRIX_RESPONSE)]
    yield Claim(
        "6.1.2",
        "in matrix response time LJF and SJF without ageing are as bad as Random",
        f"{_range(ratios)} of Random's",
        all(abs(ratio - 1) < 0.1 for ratio in ratios),
    )


def _load(found: Evaluation) -> Iterable[Claim]:
    yield Claim(
        "5.2",
        "beside ten heavy jobs a job takes five times as long (5.6)",
        f"{found.overload[10]:.1f} times, when 41 threads share 8",
        4.5 <= found.overload[10] <= 5.5,
    )
    yield Claim(
        "5.2",
        "the job takes longer as soon as two heavy jobs occupy the eight threads",
        f"{found.overload[1]:.2f} times beside one heavy job, {found.overload[2]:.2f} beside two",
        found.overload[1] == 1 < found.overload[2],
    )


def _model(found: Evaluation) -> Iterable[Claim]:
    plain, slowed = found.plain, found.slowed
    shares = [
        float(np.sort([job.service_time for job in jobs])[-20:].sum())
        / sum(job.service_time for job in jobs)
        for jobs in model_sets(len(plain.of("LJF", 1.0, MAKESPAN)))
    ]
    yield Claim(
        "5.1.1",
        "a fifth of the jobs has four fifths of the work",
        f"{np.mean(shares):.0%} on average in samples of a hundred",
        bool(abs(np.mean(shares) - 0.8) < 0.05),
    )
    both = (plain, slowed)
    yield _best_everywhere("5.3.2", "LJF has the best makespan (5.7, 5.10)", "LJF", MAKESPAN, *both)
    says = "SJF has the best mean response time (5.8, 5.11)"
    yield _best_everywhere("5.3.2", says, "SJF", RESPONSE, *both)
    measures = (MAKESPAN, RESPONSE)
    equal = [ratio for one in both for m in measures for ratio in one.ratios("FIFO", m)]
    matrix = plain.ratio("FIFO", 2.0, MATRIX_RESPONSE)
    same = [max(abs(ratio - 1) for ratio in ratios) < 0.05 for ratios in (equal, [matrix])]
    yield Claim(
        "5.3.2",
        "FIFO and Random are equal, as all jobs are released together",
        f"in makespan and response time FIFO is {_range(equal)} of Random's, in matrix response "
        f"time {matrix:.2f} at two slots",
        _all_or_some(same),
    )
    without, within = (_where(max, one, "SJF", MAKESPAN) for one in both)
    yield Claim(
        "5.3.2, 5.4",
        "slowdown does not change how the policies relate",
        f"SJF has the worst makespan at {_runs(without, plain.xs)} without slowdown, at "
        f"{_runs(within, slowed.xs)} with it",
        len(without) == len(within),
    )
    at = {x: slowed.mean("LJF", x, MAKESPAN) for x in slowed.xs}
    least = min(at, key=lambda x: at[x])
    yield Claim(
        "5.3.2",
        "with slowdown LJF's makespan rises beyond six slots (5.10)",
        f"its mean is lowest at {least:g} slots ({at[least]:.2f}s) and {at[16.0]:.2f}s at 16",
        least < 16 and at[16.0] > at[least],
    )
    cells = [[spread(one, p, m) for one in both] for p in POLICY_OF for m in SECONDS]
    higher = [b[0] > a[0] for a, b in cells]
    ljf, slowed_ljf = cells[0]
    yield Claim(
        "5.3.2",
        "the standard deviation is higher with slowdown (tables 5.1, 5.2)",
        f"in {sum(higher)} of {len(cells)} cells, by little: LJF's makespan "
        f"{ljf[0]:.0f} and {slowed_ljf[0]:.0f}s. The variance is infinite, and other seeds give "
        "half or twice as much; the interquartile ranges are higher, too: "
        f"{ljf[1]:.0f} and {slowed_ljf[1]:.0f}s",
        all(higher),
    )


def _discussion(found: Evaluation) -> Iterable[Claim]:
    both, plain = (found.plain, found.slowed), found.plain
    at = {x: plain.mean("LJF", x, MAKESPAN) for x in plain.xs}
    four, six = (at[x] / at[16.0] - 1 for x in (4.0, 6.0))
    yield Claim(
        "6.2",
        "without slowdown LJF's makespan does not change beyond six slots",
        f"it is {four:.1%} above its least at 4 slots, {six:.1%} at 6",
        six < SAME,
    )
    yield _ageing(both)
    yield _gains(found)
    aged, unaged = (
        [_where(min, one, policy, MATRIX_RESPONSE) for one in both]
        for policy in ("LJF-aging", "LJF")
    )
    (few, few_slowed), (many, many_slowed) = (
        [_runs(x, plain.xs) for x in of] for of in (aged, unaged)
    )
    yield Claim(
        "6.2",
        "in matrix response time LJF-aging is best with few slots, LJF with many (5.9, 5.12)",
        f"LJF-aging at {few} without slowdown, {few_slowed} with; LJF at {many} and {many_slowed}",
        all(a and b and max(a) < min(b) for a, b in zip(aged, unaged, strict=True)),
    )
    yield _proof()
    yield _erased(plain)
    yield _diminished(found)
    falls = [
        one.median(p, TABLE_SLOTS[-1], m) < one.median(p, TABLE_SLOTS[0], m)
        for one in both
        for p in POLICY_OF
        for m in SECONDS
        if (p, m) != ("LJF", MAKESPAN)
    ]
    yield Claim(
        "8",
        "every policy gains by slots in every measure, but for LJF's makespan",
        f"from 5 to 15 slots {sum(falls)} of {len(falls)} medians fall",
        all(falls),
    )


def _ageing(both: Sequence[Plays]) -> Claim:
    """Compare the aged policies' makespans with Random's and with those of the unaged ones."""
    cells = [
        (one.ratio(policy, x, MAKESPAN), one.ratio(f"{policy}-aging", x, MAKESPAN))
        for one in both
        for policy in ("LJF", "SJF")
        for x in one.xs
    ]
    # of Random's, whose own ratio is 1
    between = [min(unaged, 1) - SAME <= aged <= max(unaged, 1) + SAME for unaged, aged in cells]
    return Claim(
        "6.2",
        "the aged policies' makespans lie between Random's and those of the unaged ones",
        f"in {sum(between)} of {len(between)} cases (two policies, with and without slowdown, 1 to "
        f"{both[0].xs[-1]:g} slots)",
        _all_or_some(between),
    )


def _erased(plain: Plays) -> Claim:
    """Find how many heavy jobs side by side cost as much as the best policy gains over Random."""
    slowdown = THESIS_TABLE.slowdown
    told, counts = [], []
    for measure in SECONDS:
        ratio = min(min(plain.ratios(policy, measure)) for policy in POLICY_OF)
        heavy = next(k for k in count() if slowdown(k) * ratio >= 1)
        counts.append(heavy)
        told.append(f"{heavy} for the {METRICS[measure]} (at best {ratio:.2f} of Random's)")
    return Claim(
        "6.3",
        "few heavy jobs in parallel erase what any policy gains",
        f"as many do on one builder by page 16: {', '.join(told)}",
        max(counts) <= FEW_HEAVY_JOBS,
    )


def _diminished(found: Evaluation) -> Claim:
    """Compare what slots gain without slowdown and with it, by policy and measure."""
    few, many = TABLE_SLOTS[0], TABLE_SLOTS[-1]
    cells = [(policy, measure) for policy in POLICY_OF for measure in SECONDS]
    left = [
        [one.median(p, many, m) / one.median(p, few, m) for p, m in cells]
        for one in (found.plain, found.slowed)
    ]
    smaller = [with_it > without - SAME for without, with_it in zip(*left, strict=True)]
    return Claim(
        "8",
        "overload diminishes the gain of parallelism, for all policies and measures",
        f"from {few:g} to {many:g} slots the medians fall less with slowdown in {sum(smaller)} of "
        f"{len(smaller)} cases",
        _all_or_some(smaller),
    )


def _gains(found: Evaluation) -> Claim:
    """Find a range of slots in which Random gains as much as the thesis claims."""
    medians = [
        {x: one.median("Random", x, MAKESPAN) for x in one.xs}
        for one in (found.plain, found.slowed)
    ]

    def nearest(gain: Callable[[float, float], float]) -> tuple[str, float]:
        def off(slots: tuple[float, float]) -> float:
            few, many = slots
            gains = (gain(at[few], at[many]) for at in medians)
            return max(abs(a - b) for a, b in zip(gains, THESIS_GAINS, strict=True))

        few, many = best = min(combinations(found.plain.xs, 2), key=off)
        plain, slowed = (gain(at[few], at[many]) for at in medians)
        return f"{plain:.0%} and {slowed:.0%} from {few:g} to {many:g} slots", off(best)

    faster, off = nearest(lambda old, new: old / new - 1)
    less, far = nearest(lambda old, new: 1 - new / old)
    return Claim(
        "6.2",
        "Random's makespan improves by 64 % without and 22 % with slowdown (of how many slots "
        "over how many is not said)",
        f"nearest, by medians: {faster} where improvement is old ÷ new - 1; where it is the share "
        f"saved, {less}",
        far < 0.05 or (None if off < 0.05 else False),
    )


def _proof() -> Claim:
    """Simulate the example of section 6.2: three heavy jobs on two slots, and on three."""
    laws: dict[str, Contention] = {
        "k n": {"slowdown": [1, 1, 2, 3]},
        "page 16": {"linear": {"threshold": 1, "slope": 0.4}},
        "none for two": {"linear": {"threshold": 2, "slope": 0.4}},
    }
    jobs = tuple(Job(id=str(n), service_time=t, heavy=True) for n, t in enumerate((2.0, 1.0, 1.0)))
    told, proven = [], []
    for name, law in laws.items():
        plays = play_cases({slots: ([jobs], [pool(slots, law)]) for slots in (2, 3)}, ["LJF"])
        two, three = (plays.mean("LJF", slots, MAKESPAN) for slots in plays.xs)
        told.append(f"{name}: {two:.1f} and {three:.1f}s")
        proven.append(abs(two - three) < 1e-9)
    return Claim(
        "6.2",
        "proof: where slowdown grows linearly with the heavy jobs, three of them (2, 1, 1 s) take "
        "as long on two slots as on three",
        f"{'; '.join(told)}. It holds for every law that is linear from one heavy job on, page "
        "16's too, and not where two of them cost nothing",
        proven == [True, True, False],
    )
