"""The closed loop of a farm's load: which of its jobs come because others have ended.

Records say when jobs came. On another farm those would come at other times that were released by
others, and those of a run that a newer push cancels would get further, or less far. So what is
played is not when they came, but why: the needs of each job (``run_needs.py``), and the pushes that
cancel (``superseded.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.units import many
from farm_twin.diagnosis.releases import Releases, releases_in
from farm_twin.twins.closed_loop.run_needs import JobNeeds, with_needs
from farm_twin.twins.closed_loop.superseded import superseded

RELEASED: Final = 0.05
"""Share of the jobs that others must have released, for the loop to be closed: below it a twin of
another size would hardly differ."""
CUT_SHORT: Final = 0.01
"""Share of jobs that were cancelled for no known push, from which no answer is sure."""
SHOWN: Final = 3
"""Rules, and names within a rule, that are told."""


class ClosedLoop(NamedTuple):
    """The records of a farm, with what released their jobs."""

    #: the records to play: with needs, and with drawn run times of what was cancelled
    bundle: Bundle
    needs: list[JobNeeds]
    #: share of the jobs that others released
    share: float
    #: jobs that began a further try of their run
    tried_again: int
    #: workflows in which a newer push cancels the older run, and how many runs it cancelled
    cancelling: tuple[str, ...]
    cancelled_runs: int
    #: jobs whose run time was drawn, and those that were added
    drawn: int
    added: int

    @property
    def cut_short(self) -> float:
        """Share of the jobs that were cancelled as no push explains: their run times are not whole.

        On a larger farm such a job would have run on, and on a smaller one been cancelled sooner.
        """
        attempts = self.bundle.attempts
        return sum(attempt.result == "cancelled" for attempt in attempts) / len(attempts)

    @property
    def evidence(self) -> Iterator[str]:
        """What was found, a sentence each."""
        rules = sorted(self.needs, key=lambda rule: (-rule.runs, rule.kind))
        shown = ", ".join(f"{rule.kind} after {_names(rule.needs)}" for rule in rules[:SHOWN])
        more = f", and {many(len(rules) - SHOWN, 'more job')}" if len(rules) > SHOWN else ""
        yield (
            f"{self.share:.0%} of the jobs come when others of their run have ended ({shown}{more})"
            ", and are played so (closed loop)"
        )
        if self.tried_again:
            yield f"{many(self.tried_again, 'job')} began another try of their run"
        unproven = [rule for rule in rules if rule.unproven]
        if unproven:
            yield (
                f"never seen as the last need: {_names(unproven[0].unproven)} of "
                f"{unproven[0].kind}" + (", …" if len(unproven) > 1 else "")
            )
        if self.cut_short >= CUT_SHORT:
            yield (
                f"{self.cut_short:.0%} of the jobs were cancelled, by no push that is recognised: "
                "they are played for as long as they ran"
            )
        if self.cancelling:
            where = _names([workflow or "all workflows" for workflow in self.cancelling])
            yield (
                f"a newer push cancels the older run of {where} "
                f"({many(self.cancelled_runs, 'run')}): {many(self.drawn, 'job')} of them have "
                f"run times drawn from whole ones, {many(self.added, 'job')} they would have had"
            )


def _names(names: Sequence[str]) -> str:
    shown = " and ".join(names[:SHOWN]) if len(names) <= SHOWN else ", ".join(names[:SHOWN])
    return f"{shown}, …" if len(names) > SHOWN else shown


def closed_loop_of(bundle: Bundle) -> ClosedLoop | None:
    """Return the closed loop of a farm's records; None: hardly any job was released by others."""
    load = with_needs(bundle.attempts)
    if load.share < RELEASED:
        return None
    runs = superseded(load.attempts, load.needs)
    closed = bundle.derived(
        runs.attempts,
        {},
        {
            "jobs of runs that a newer push cancelled: run time drawn": runs.drawn,
            "jobs added that such runs would have had": runs.added,
        },
        "with what released each job, read from when jobs came and ended",
        window=bundle.manifest.window,
    )
    return ClosedLoop(
        bundle=closed,
        needs=load.needs,
        share=load.share,
        tried_again=load.tried_again,
        cancelling=runs.workflows,
        cancelled_runs=runs.runs,
        drawn=runs.drawn,
        added=runs.added,
    )


def other_releases(attempts: Sequence[Attempt]) -> Releases | None:
    """Return the releases that needs do not explain; None: they do not matter."""
    rest = [attempt for attempt in attempts if not attempt.needs]
    found = releases_in(AttemptColumns.of(rest))
    share = found.share * len(rest) / max(1, len(attempts))
    found = found._replace(share=share)
    return found if found.matter else None
