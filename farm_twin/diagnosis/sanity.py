"""Checks of records before they are believed: each is a rule with a name, and a function here.

What an importer assumes silently, the doctor would say as confidently as what it has seen. So each
rule looks for one way in which records mislead. To add one: a function from ``Examined`` to a
``Finding`` (None: nothing is amiss), and its line in ``RULES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

import msgspec
import numpy as np

from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.records.foreign_columns import time_of
from farm.records.labels import LABELS_OF_RUNS
from farm.records.repeated_hour import LEFT_OUT, PLACED
from farm.records.resolution import rounded_step
from farm.records.sifting import CLOCK_OFF, DOUBTFUL, SAME_ID
from farm.records.spellings import OTHER_SPELLING
from farm.units import format_roughly, many
from farm_twin.diagnosis.evidence import Assumption, Effect, Finding
from farm_twin.diagnosis.figures import FarmFigures
from farm_twin.diagnosis.releases import releases_in
from farm_twin.importing import ROUNDED
from farm_twin.sources.slurm import NO_PROCESSORS
from farm_twin.sources.tables import NO_UNIT


class SanityLimits(msgspec.Struct, frozen=True, kw_only=True):
    """From where on a check has found something, and from where on there is no verdict."""

    #: share of the records that is missing, from which those that are there may mislead
    max_missing_share: float = 0.05
    #: the shortest wait that a queue may have, seconds: a runner is free now and then
    max_shortest_wait: float = 3600.0
    #: the time to which zones are apart from each other, and by how much waits may differ from it,
    #: seconds
    zones_apart: float = 900.0
    near_zone: float = 60.0
    #: jobs from which the shortest wait says something
    min_jobs: int = 20
    #: share of the jobs for which an unused instant lies between arrival and start, and for which
    #: it is later than the arrival, so that it may be the arrival
    min_share_between: float = 0.95
    min_share_later: float = 0.05
    #: seconds of a step beyond which times were rounded: shorter ones may be a scheduler's rounds
    min_step: float = 20.0
    #: share of the mean run time from which rounded times matter
    min_step_share: float = 0.05
    #: share of the mean run time up to which rounded times still tell how many jobs ran at once
    max_step_share: float = 0.5
    #: share of the jobs that ran on runners whose clocks are behind, from which waits are unknown
    max_share_of_clocks: float = 0.5


LIMITS = SanityLimits()
MAX_NAMED, MAX_NAME = 4, 80
"""Platforms that are named in a sentence, and the characters of each."""
MAX_SAMPLE = 500
"""Attempts whose unused columns are read."""
_OF_SLOTS = re.compile(
    r"n?(req_?|alloc_?)?(cpus?|cores?|gpus?|processors?|procs|vcpus?|threads|nodes)", re.IGNORECASE
)
"""What columns are called that say how much of a machine a job took."""


class Examined(NamedTuple):
    """Records, and what was computed from them."""

    bundle: Bundle
    attempts: AttemptColumns
    figures: FarmFigures
    #: of the p95 wait, seconds
    objective: float

    @property
    def sample(self) -> list[Attempt]:
        """Some of the attempts, evenly chosen: what is read of each takes long."""
        attempts = self.bundle.attempts
        return attempts[:: 1 + len(attempts) // MAX_SAMPLE]

    def noted(self, why: str) -> int:
        """Return of how many records this was noted when they were read."""
        return self.bundle.manifest.noted.get(why, 0)

    @property
    def of_whole(self) -> str:
        """What is said beside such a number where it is that of more records than there are."""
        if not self.bundle.manifest.is_part:
            return ""
        return f" (of the {self.bundle.manifest.read:,} records that these are a part of)"


def findings(examined: Examined) -> Iterator[Finding]:
    """Yield what the checks of the records have found."""
    for rule in RULES:
        finding = rule(examined)
        if finding is not None:
            yield finding


def fewer_records_than_announced(examined: Examined) -> Finding | None:
    """The files speak of records that they do not have."""
    parts = examined.bundle.manifest.missing
    if not parts:
        return None
    text = ", ".join(part.text for part in parts)
    share = max(part.share for part in parts)
    largest = max(parts, key=lambda part: part.share)
    is_large = share >= LIMITS.max_missing_share
    return Finding(
        rule="fewer records than announced",
        text=f"{text} are not in these files",
        effect="forbids" if is_large else "weakens",
        reversed_if=f"{largest.missing:,} of {largest.announced:,} {largest.unit} that are not in "
        f"these files differ ({largest.reason})",
    )


def shortest_wait_of_hours(examined: Examined) -> Finding | None:
    """No job waited less than an hour: two columns may be by clocks of two zones."""
    late = [
        platform
        for platform in examined.figures.platforms
        if (platform.shortest_wait or 0.0) >= LIMITS.max_shortest_wait
        and platform.waits.count >= LIMITS.min_jobs
    ]
    if not late:
        return None
    shortest = min(platform.shortest_wait or 0.0 for platform in late)
    apart = round(shortest / LIMITS.zones_apart) * LIMITS.zones_apart
    is_of_zones = abs(shortest - apart) <= LIMITS.near_zone
    return Finding(
        rule="shortest wait of hours",
        text=f"no job waited less than {format_roughly(shortest)}: the columns may be of two zones",
        effect="forbids" if is_of_zones else "weakens",
        platforms=tuple(platform.platform for platform in late),
        assumed=Assumption(
            "zones of the columns",
            "the same",
            f"waits are shorter by {format_roughly(apart)}",
        ),
        reversed_if="the clocks of arrivals and starts are of two zones (offsets in both columns "
        "settle it)",
    )


def records_left_out(examined: Examined) -> Finding | None:
    """Many records are against the order of time, or could not be read."""
    counts = {
        why: count
        for why, count in examined.bundle.manifest.left_out.items()
        if why.startswith(DOUBTFUL)
    }
    count = sum(counts.values())
    if count < LIMITS.max_missing_share * examined.bundle.manifest.read:
        return None
    return Finding(
        rule="records left out",
        text=f"{many(count, 'record')}{examined.of_whole} left out: {', '.join(counts)}",
        effect="weakens",
        reversed_if=f"the {many(count, 'record')} left out differ",
    )


def a_hole_in_the_records(examined: Examined) -> Finding | None:
    """For some hours nothing happened on any platform, and on other days it did."""
    holes = examined.figures.holes
    if not holes:
        return None
    begins, ends = max(holes, key=lambda hole: hole[1] - hole[0])
    since = datetime.fromtimestamp(begins, examined.bundle.manifest.clock)
    more = f" (and {many(len(holes) - 1, 'shorter hole')})" if len(holes) > 1 else ""
    missing = sum(ends - begins for begins, ends in holes) / (3600 * examined.figures.hours)
    return Finding(
        rule="a hole in the records",
        text=f"for {format_roughly(ends - begins)} from {since:%a %d %b %H:%M} on nothing came, "
        f"started or ended on any platform{more}, though other days are busy then: left out of "
        "all rates",
        effect="weakens" if missing >= LIMITS.max_missing_share else "noted",
        assumed=Assumption("these hours", "not recorded", "the farm had no work then"),
        reversed_if="the records that are not there differ"
        if missing >= LIMITS.max_missing_share
        else "",
    )


def two_arrival_columns(examined: Examined) -> Finding | None:
    """A table has the time at which a job was made, and that at which it was queued."""
    columns = examined.bundle.manifest.columns
    made = columns.get("submitted")
    queued = columns.get("eligible")
    if made is None or queued is None or made == queued:
        return _other_arrivals(examined)
    p95_since_made = max(
        (platform.wait_since_submission_p95 or 0.0 for platform in examined.figures.platforms),
        default=0.0,
    )
    p95 = max((platform.wait_p95 or 0.0 for platform in examined.figures.platforms), default=0.0)
    is_decisive = p95 <= examined.objective < p95_since_made
    wait = format_roughly(p95_since_made)
    return Finding(
        rule="two arrival columns",
        text=f"a job waits from {queued}; {made} is when it was submitted",
        effect="weakens" if is_decisive else "noted",
        assumed=Assumption("waits begin", queued, f"from {made} on, the p95 wait is {wait}"),
        reversed_if=f"jobs wait from {made} on (--column eligible={made} says so)"
        if is_decisive
        else "",
    )


def _other_arrivals(examined: Examined) -> Finding | None:
    """Return that a column that is not used may say when jobs could start; None: there is none."""
    sample = [attempt for attempt in examined.sample if attempt.waited is not None]
    if len(sample) < LIMITS.min_jobs:
        return None
    clock = examined.bundle.manifest.clock
    for name in sample[0].attributes:
        instants = [_instant(attempt.attributes.get(name, ""), clock) for attempt in sample]
        pairs = [
            (attempt, at) for attempt, at in zip(sample, instants, strict=True) if at is not None
        ]
        between = [
            (attempt, at)
            for attempt, at in pairs
            if attempt.arrived_at <= at <= (attempt.started_at or 0.0)
        ]
        later = sum(at > attempt.arrived_at + 1.0 for attempt, at in between)
        if len(between) < LIMITS.min_share_between * len(sample):
            continue
        if later < LIMITS.min_share_later * len(sample):
            continue
        waits = sorted((attempt.started_at or 0.0) - at for attempt, at in between)
        wait = format_roughly(waits[int(0.95 * (len(waits) - 1))])
        return Finding(
            rule="two arrival columns",
            text=f"{name}, which is not used, lies between arrivals and starts",
            effect="weakens",
            assumed=Assumption(
                "waits begin", "at the arrival", f"from {name} on, the p95 wait is {wait}"
            ),
            reversed_if=f"jobs wait from {name} on (--column eligible={name} says so)",
        )
    return None


def _instant(text: str, clock: tzinfo) -> float | None:
    """Return a time that is written as ISO 8601, seconds since 1970; None: it is none."""
    if ":" not in text:
        return None
    try:
        time = time_of(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=clock)).timestamp()


def numbers_without_a_unit(examined: Examined) -> Finding | None:
    """A table's run times or waits are numbers, and no name says of which unit."""
    columns = [
        why.removesuffix(NO_UNIT).strip()
        for why in examined.bundle.manifest.noted
        if why.endswith(NO_UNIT)
    ]
    if not columns:
        return None
    name = columns[0]
    return Finding(
        rule="numbers without a unit",
        text=f"{' and '.join(columns)}: numbers of no unit, taken as seconds",
        effect="weakens",
        assumed=Assumption(
            f"unit of {name}", "seconds", f"--column {name}_min=…, or {name}_ms=…: other times"
        ),
        reversed_if=f"{' and '.join(columns)} is in another unit than seconds "
        f"(--column {name}_s={name} says that it is)",
    )


def overlaps_by_a_sliver(examined: Examined) -> Finding | None:
    """Jobs of a runner overlap by less than their times are exact to."""
    counts = {
        why: count
        for why, count in examined.bundle.manifest.noted.items()
        if why.startswith(ROUNDED)
    }
    if not counts:
        return None
    exact_to = format_roughly(examined.bundle.manifest.resolution_time)
    return Finding(
        rule="same-runner overlaps by a sliver",
        text=f"{many(sum(counts.values()), 'job')}{examined.of_whole} {next(iter(counts))}",
        effect="weakens",
        assumed=Assumption(
            "resolution", exact_to, "runners have one more slot each: not capacity, if these idle"
        ),
        reversed_if=f"overlaps by less than {exact_to} are real, so that runners have another slot "
        "(a column of ends with seconds, or --slots, settles it)",
    )


def times_rounded_by_more_than_jobs_run(examined: Examined) -> Finding | None:
    """Starts, waits or run times are whole minutes or hours, and other times are not."""
    attempts = examined.attempts
    run_times = attempts.ran[~np.isnan(attempts.ran)]
    if len(run_times) < LIMITS.min_jobs:
        return None
    step = rounded_step(attempts)
    is_zero = not run_times.any()
    is_short = step <= LIMITS.min_step_share * float(run_times.mean())
    is_known = step <= max(LIMITS.min_step, examined.bundle.manifest.resolution_time)
    if not is_zero and (is_short or is_known):
        return None
    exact_to = format_roughly(step)
    text = f"some times are rounded to {exact_to}, and others are not: jobs seem to overlap"
    if is_zero:
        text = "all jobs ran for no time: their run times are not in these records"
    is_longer = step > LIMITS.max_step_share * float(run_times.mean())
    return Finding(
        rule="rounded times",
        text=text,
        effect="forbids" if is_zero or is_longer else "weakens",
        assumed=Assumption("resolution", exact_to, "another number of slots and of free ones"),
        reversed_if=f"times that are rounded to {exact_to} mislead (columns of starts and ends "
        "with seconds settle it)",
    )


def columns_of_slots_unused(examined: Examined) -> Finding | None:
    """A column may say how many slots a job took, and is not read as that."""
    if examined.noted(NO_PROCESSORS):
        return Finding(
            rule="capacity columns unused",
            text="each job counts as one slot, as no column says how many processors it had",
            effect="weakens",
            assumed=Assumption(
                "slots of a job", "1", "where jobs fit in decides over waits, not their number"
            ),
            reversed_if="jobs take several processors (sacct --format=…,AllocCPUS says so)",
        )
    if (examined.attempts.slots != 1).any():
        return None
    columns = sorted(
        {
            name
            for attempt in examined.sample
            for name, text in attempt.attributes.items()
            if _OF_SLOTS.fullmatch(name) and text not in ("", "1")
        }
    )
    if not columns:
        return None
    return Finding(
        rule="capacity columns unused",
        text=f"each job counts as one slot, though there is a column {columns[0]}",
        effect="weakens",
        assumed=Assumption(
            "slots of a job", "1", f"as in {columns[0]}: where jobs fit in decides over waits"
        ),
        reversed_if=f"jobs take as many slots as {columns[0]} says (--column slots={columns[0]})",
    )


def slots_that_were_in_use(examined: Examined) -> Finding | None:
    """Jobs take several slots, and how many there are is known from those in use alone."""
    platforms = [
        one
        for one in examined.figures.platforms
        if one.slots_in_use and (one.wait_p95 is None or one.wait_p95 > examined.objective)
    ]
    if not platforms:
        return None
    most = ", ".join(
        f"{one.slots_in_use:,g} of {one.platform or '(no labels)'}"[:MAX_NAME]
        for one in platforms[:MAX_NAMED]
    )
    return Finding(
        rule="slots that were in use",
        text=f"jobs take several slots, and the most that were in use are taken for all: {most}",
        effect="weakens",
        platforms=tuple(one.platform for one in platforms),
        reversed_if="there are more slots than were ever in use at once (--slots says how many)",
    )


def one_id_with_different_times(examined: Examined) -> Finding | None:
    """Several attempts have one id: tries at a job, or jobs of several files."""
    count = examined.noted(SAME_ID)
    if not count:
        return None
    return Finding(
        rule="one id with different times",
        text=f"{many(count, 'attempt')}{examined.of_whole} share ids with others of other times, "
        "and are not copies",
        assumed=Assumption("ids", "count by file and attempt", "some attempts are counted twice"),
    )


def runners_that_live_for_their_jobs(examined: Examined) -> Finding | None:
    """Runners come for jobs that wait, and leave: their number is not fixed."""
    growing = [platform for platform in examined.figures.platforms if platform.grows]
    if not growing:
        return None
    runners = sum(platform.runners for platform in growing)
    at_once = sum(platform.busy_at_once for platform in growing)
    return Finding(
        rule="runners that live for their jobs",
        text=f"{runners:,} runners came for jobs and left; no more than {at_once:,} jobs ran at "
        "once",
        platforms=tuple(platform.platform for platform in growing),
        assumed=Assumption(
            "capacity",
            "grows on demand",
            f"short of servers, if no more than {at_once:,} jobs may run at once",
        ),
    )


def labels_of_one_run(examined: Examined) -> Finding | None:
    """Each run asks for a label of its own: that names no kind of runner."""
    count = examined.noted(LABELS_OF_RUNS)
    if not count:
        return None
    return Finding(
        rule="labels of one run",
        text=f"{many(count, 'job')}{examined.of_whole} have a label that only their own run asks "
        "for: it is no part of the platform",
        assumed=Assumption("labels of one run", "no platform", "each run is a platform of its own"),
    )


def runner_names_in_other_capitals(examined: Examined) -> Finding | None:
    """Names of runners differ by capitals only, and no two of them ever ran jobs at once."""
    count = examined.noted(OTHER_SPELLING)
    if not count:
        return None
    return Finding(
        rule="runner names in other capitals",
        text=f"{many(count, 'job')}{examined.of_whole} ran on runners whose names are also spelled "
        "with other capitals: taken for one, as they never ran jobs at once",
        assumed=Assumption("these names", "one machine", "not capacity, if they are others"),
    )


def one_runners_clock(examined: Examined) -> Finding | None:
    """Jobs of a runner start before they could, or later than any other: its clock is off."""
    count = examined.noted(CLOCK_OFF)
    if not count:
        return None
    manifest = examined.bundle.manifest
    records = manifest.read if manifest.history else len(examined.bundle.attempts)
    share = count / max(1, records)
    # how many of them are in a part is not known
    is_large = share >= LIMITS.max_share_of_clocks and not manifest.is_part
    return Finding(
        rule="one runner's clock",
        text=f"{many(count, 'job')}{examined.of_whole} ran on runners whose clocks are off: moved, "
        "and their waits are not known",
        effect="forbids" if is_large else "noted",
        assumed=Assumption(
            "clocks of these runners", "off by a constant", "their waits are as recorded"
        ),
    )


def night_of_25_hours(examined: Examined) -> Finding | None:
    """Local times of the night in which a clock was set back may be of either hour."""
    placed = examined.noted(PLACED)
    manifest = examined.bundle.manifest
    left_out = manifest.left_out.get(LEFT_OUT, 0)
    if not placed + left_out:
        return None
    records = manifest.read if manifest.history else left_out + len(examined.bundle.attempts)
    # how many of them would be in a part is not known
    is_large = left_out >= LIMITS.max_missing_share * records and not manifest.is_part
    effect: Effect = "noted"
    if left_out:
        effect = "forbids" if is_large else "weakens"
    return Finding(
        rule="a night of 25 hours",
        effect=effect,
        text=f"in the hour that comes twice: {many(placed, 'attempt')} placed by their order and "
        f"run times, {left_out:,} left out{examined.of_whole}",
        assumed=Assumption(
            "hour that comes twice", "placed by order", "times in it are off by an hour (--zone)"
        ),
    )


def arrivals_that_follow_ends(examined: Examined) -> Finding | None:
    """Jobs come when others end, as jobs do that these release: more slots change arrivals."""
    releases = releases_in(examined.attempts)
    if not releases.matter:
        return None
    return Finding(
        rule="arrivals that follow ends",
        text=f"{releases.text}, as jobs do that others release",
        effect="weakens",
        assumed=Assumption(
            "arrivals",
            "as they were recorded (open-loop)",
            "on a larger farm they come sooner, and need more slots than is said",
        ),
        about_slots="with arrivals as they were (open-loop): on more slots jobs would come sooner",
    )


RULES: tuple[Callable[[Examined], Finding | None], ...] = (
    fewer_records_than_announced,
    shortest_wait_of_hours,
    records_left_out,
    a_hole_in_the_records,
    two_arrival_columns,
    numbers_without_a_unit,
    overlaps_by_a_sliver,
    times_rounded_by_more_than_jobs_run,
    columns_of_slots_unused,
    slots_that_were_in_use,
    one_id_with_different_times,
    runners_that_live_for_their_jobs,
    labels_of_one_run,
    runner_names_in_other_capitals,
    one_runners_clock,
    night_of_25_hours,
    arrivals_that_follow_ends,
)
