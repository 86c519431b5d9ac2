"""The whole study: reproduced figures, claims, future work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path

from farm.results.figures.page import PageSection, PageTable
from farm_studies.thesis.claims import claims_table
from farm_studies.thesis.evaluation import OnStep, evaluate, sections
from farm_studies.thesis.future_work import future_work

TITLE = "Improving the scheduling policy for a CI server: the thesis, played again"


class Part(StrEnum):
    """Parts of the study."""

    EVALUATION = "evaluation"
    FUTURE_WORK = "future-work"


def thesis(
    runs: int,
    parts: Collection[Part] = tuple(Part),
    *,
    live: bool = False,
    trace: Path | None = None,
    on_step: OnStep = lambda _: None,
) -> list[PageSection]:
    """Simulate the thesis's experiments, the model on ``runs`` job sets (at most 1000).

    Args:
        runs: job sets of the model.
        parts: what to simulate.
        live: also run a slice of section 5.1 on a real farm.
        trace: recorded jobs for the future work.
        on_step: called with the name of the next step.
    """
    found = [_introduction(runs)]
    if Part.EVALUATION in parts:
        evaluation = evaluate(runs, on_step)
        claims = claims_table(evaluation)
        found = [PageSection("The claims", [answer_of(claims)], (), [claims]), *found]
        found += sections(evaluation)
    if live:
        from farm_studies.thesis.live_slice import live_slice  # noqa: PLC0415 - Celery, Redis

        found.append(live_slice(on_step))
    if Part.FUTURE_WORK in parts:
        found += future_work(runs, trace, on_step)
    return found


def answer_of(claims: PageTable) -> str:
    """Return the page's first sentence: how many claims hold here."""
    held = Counter(row[-1] for row in claims.rows)
    return (
        f"{held['reproduced']} of the thesis's {len(claims.rows)} claims are reproduced, "
        f"{held['in part']} in part; {held['not reproduced']} are not."
    )


def _introduction(runs: int) -> PageSection:
    return PageSection(
        "How to read this page",
        [
            f"""Every policy and every number of slots plays the same job sets: {runs} of the
            model's, four matrices of 25 jobs each (section 5.3), and those of section 5.1. This
            farm's own scheduler decides, or the compiled loop that is checked against it.""",
            """Service times are Pareto(1.161), whose variance is infinite: a mean or a standard
            deviation, of a thousand sets too, says more about the longest job that was drawn than
            about a policy. So figures show medians, and policies are compared by the geometric
            mean of their ratios to Random on the same jobs; the means, which the thesis gives,
            stand beside them in the tables.""",
        ],
    )


def tables(sections: Sequence[PageSection]) -> dict[str, list[dict[str, str]]]:
    """Return all tables by their titles, a dict for each row."""
    return {
        f"{section.title}: {one.title}": [
            dict(zip(one.columns, row, strict=True)) for row in one.rows
        ]
        for section in sections
        for one in section.tables
    }
