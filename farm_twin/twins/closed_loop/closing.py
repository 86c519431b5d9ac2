"""The closed loop of a farm's load: which of its jobs come because others have ended.

Records say when jobs came. On another farm those would come at other times that were released by
others, and those of a run that a newer push cancels would get further, or less far. So what is
played is not when they came, but why: the needs of each job (``run_needs.py``), and the pushes that
cancel (``superseded.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.records.resolution import LIMITS, step_of
from farm.units import format_roughly, many
from farm_twin.diagnosis.releases import Releases, releases_in
from farm_twin.twins.closed_loop.group_waits import (
    GroupWaits,
    full_since,
    with_group_waits,
    without_wrong_limits,
)
from farm_twin.twins.closed_loop.run_needs import CLOCKS, RIGHT_AFTER, JobNeeds, with_needs
from farm_twin.twins.closed_loop.superseded import superseded

RELEASED: Final = 0.05
"""Share of the jobs that others seem to have released, from which they are played so: below it a
twin of another size would hardly differ, and what seems so may be chance. It is less than
``RELEASED_SHARE`` of the diagnosis, from which an open twin misleads: needs that were found are
played also where they matter little."""
CUT_SHORT: Final = 0.01
"""Share of jobs that were cancelled for no known push, from which no answer is sure: with or
without a closed loop."""
SHOWN: Final = 3
"""Rules, and names within a rule, that are told."""


class ClosedLoop(NamedTuple):
    """The records of a farm, with what released their jobs."""

    #: the records to play: with needs, and with drawn run times of what was cancelled
    bundle: Bundle
    needs: list[JobNeeds]
    #: share of the jobs that others released, or that a newer push may cancel
    share: float
    #: share of those that others released
    released: float
    #: of these, the share whose system says what released them
    explicit: float
    #: seconds by which instants may be out of order
    resolution: float
    #: jobs that began a further try of their run
    tried_again: int
    #: workflows in which a newer push cancels the older run, and how many runs it cancelled
    cancelling: tuple[str, ...]
    cancelled_runs: int
    #: jobs whose run time was drawn, and those that were added
    drawn: int
    added: int
    #: what waited for its place in a group
    group_waits: GroupWaits
    #: groups in which more jobs were at once than they allow
    wrong_limits: list[str]

    @property
    def origin(self) -> str:
        """Where it is known from what released jobs."""
        if self.explicit >= 1:
            return "what they need is from the records"
        if self.explicit > 0:
            return (
                f"what {self.explicit:.0%} of these need is from the records, of the others it is "
                "inferred from when jobs came and ended"
            )
        return "what they need is inferred from when jobs came and ended"

    @property
    def evidence(self) -> Iterator[str]:
        """What was found, a sentence each."""
        rules = sorted(self.needs, key=lambda rule: (-rule.runs, rule.kind))
        if self.released:
            shown = ", ".join(f"{rule.kind} after {_names(rule.needs)}" for rule in rules[:SHOWN])
            more = f", and {many(len(rules) - SHOWN, 'more job')}" if len(rules) > SHOWN else ""
            examples = f" ({shown}{more})" if shown else ""
            yield (
                f"{self.released:.0%} of the jobs come when others have ended{examples}, "
                f"and are played so (closed loop): {self.origin}"
            )
        differing = [rule for rule in rules if rule.instead]
        if differing:
            rule = differing[0]
            yield (
                f"by their times {many(len(differing), 'job')} would need others than the records "
                f"say, which hold ({rule.kind} seems to come after {_names(rule.instead)}, and "
                f"needs {_names(rule.needs)})"
            )
        if self.tried_again:
            yield f"{many(self.tried_again, 'job')} began another try of their run"
        if self.group_waits.held:
            yield (
                f"{many(self.group_waits.held, 'job')} waited for a place in their group, "
                f"{format_roughly(self.group_waits.mean)} on average, beside "
                "their wait for a runner: here they wait for it, too"
            )
        if self.wrong_limits:
            yield (
                f"more jobs of {_names(self.wrong_limits)} had a place at once than the records "
                f"allow: {'it is' if len(self.wrong_limits) == 1 else 'they are'} played without "
                "a limit"
            )
        unproven = [rule for rule in rules if rule.unproven]
        if unproven:
            yield (
                f"never seen as the last need: {_names(unproven[0].unproven)} of "
                f"{unproven[0].kind}" + (", …" if len(unproven) > 1 else "")
            )
        if self.cancelling:
            where = _names([workflow or "all workflows" for workflow in self.cancelling])
            yield (
                f"a newer push cancels the older run of {where} "
                f"({many(self.cancelled_runs, 'run')}): {many(self.drawn, 'job')} of them have "
                f"run times drawn from whole ones, {many(self.added, 'job')} they would have had"
            )


def cut_short(attempts: Sequence[Attempt]) -> float:
    """Return the share of jobs that were cancelled as no push explains: cut short, at any rate.

    On a larger farm such a job would have run on, and on a smaller one been cancelled sooner.
    """
    return sum(attempt.result == "cancelled" for attempt in attempts) / max(1, len(attempts))


def cut_short_evidence(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield a sentence on the jobs that were cut short, if they matter."""
    share = cut_short(attempts)
    if share >= CUT_SHORT:
        yield (
            f"{share:.0%} of the jobs were cancelled, by no push that is recognised: "
            "they are played for as long as they ran"
        )


def coarse_evidence(bundle: Bundle) -> Iterator[str]:
    """Yield a sentence where instants are too coarse to show what released the jobs of runs."""
    resolution = resolution_of(bundle)
    if resolution > RIGHT_AFTER and any(attempt.matrix for attempt in bundle.attempts):
        yield (
            f"instants are exact to {format_roughly(resolution)} only: which jobs released or "
            "cancelled which cannot be told from them"
        )


def _names(names: Sequence[str]) -> str:
    shown = " and ".join(names[:SHOWN]) if len(names) <= SHOWN else ", ".join(names[:SHOWN])
    return f"{shown}, …" if len(names) > SHOWN else shown


def closed_loop_of(bundle: Bundle) -> ClosedLoop | None:
    """Return the closed loop of a farm's records; None: no job was released or cancelled so.

    Also where hardly any job seems to have been released by others, or instants are too coarse to
    show it, and nothing says that it was.
    """
    resolution = resolution_of(bundle)
    tolerance = max(CLOCKS, resolution)
    attempts, wrong_limits = without_wrong_limits(bundle.attempts, tolerance)
    since = full_since(attempts, tolerance)
    load = with_needs(attempts, resolution, since)
    if resolution > RIGHT_AFTER:
        rules = [rule._replace(instead=(), unproven=()) for rule in load.needs if rule.explicit]
        load = load._replace(needs=rules)
    if load.share < RELEASED or resolution > RIGHT_AFTER:
        # what the records say is played in any case
        load = load._replace(attempts=attempts, released=load.explicit, tried_again=0)
    group_waits = with_group_waits(load.attempts, since, tolerance)
    runs = superseded(group_waits.attempts, load.needs, resolution)
    if not load.released and not runs.workflows and not group_waits.held and not wrong_limits:
        return None
    closed = bundle.derived(
        runs.attempts,
        {},
        {
            "jobs of runs that a newer push cancelled: run time drawn": runs.drawn,
            "jobs added that such runs would have had": runs.added,
        },
        "with what releases and cancels jobs, from the records or from when jobs came and ended",
        window=bundle.manifest.window,
    )
    answering = sum(bool(attempt.needs or attempt.group) for attempt in runs.attempts)
    return ClosedLoop(
        bundle=closed,
        needs=[rule for rule in load.needs if rule.explicit or load.released > load.explicit],
        share=answering / len(runs.attempts),
        released=load.share,
        explicit=load.explicit / max(1, load.released),
        resolution=resolution,
        tried_again=load.tried_again,
        cancelling=runs.workflows,
        cancelled_runs=runs.runs,
        drawn=runs.drawn,
        added=runs.added,
        group_waits=group_waits,
        wrong_limits=wrong_limits,
    )


def resolution_of(bundle: Bundle) -> float:
    """Return by how many seconds instants of the records may be out of order."""
    return max(bundle.manifest.resolution_time, rounded_to(bundle.attempts))


def rounded_to(attempts: Sequence[Attempt]) -> float:
    """Return the step to which all arrivals and ends are rounded, seconds; 0: they are not."""
    columns = AttemptColumns.of(attempts)
    if len(attempts) < LIMITS.min_jobs:
        return 0.0
    ends = columns.finished_at[~np.isnan(columns.finished_at)]
    return min(step_of(columns.arrived_at), step_of(ends)) if len(ends) else 0.0


def other_releases(attempts: Sequence[Attempt]) -> Releases | None:
    """Return the releases that needs do not explain; None: they do not matter."""
    rest = [attempt for attempt in attempts if not attempt.needs]
    found = releases_in(AttemptColumns.of(rest))
    share = found.share * len(rest) / max(1, len(attempts))
    found = found._replace(share=share)
    return found if found.matter else None
