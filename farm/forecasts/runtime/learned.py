"""The median of a kind's runs, or of what else its jobs have in common once that was better.

Jobs are alike in several ways: by kind, by the kind's name without its numbers, by kind and
platform, user or another attribute, by user alone, by the part of the day. Each way gives two
estimates: the median of its last runs and the mean of the last two (Tsafrir, Etsion and
Feitelson 2007). The declared time is one more, and so is the declared time scaled by how the
kind's came out. What each would have said when a job was submitted is held against what the job
took (not what it would say when the job ends: by then others of the same burst are known). A
kind's jobs get its own median until another way has had a mean error that is smaller by a fifth,
lately and for long: with this kind, or with all kinds while this one has had few.

The last way is between the kind's median and the scaled declared time, as far from either (in
logarithms) as run times of all kinds were: both err, and not in the same way.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator

import msgspec

from farm.core.model import Builder, Job, Outcome
from farm.forecasts.runtime.changes import is_one_of_several, runs_since_change
from farm.forecasts.runtime.interface import (
    Basis,
    EstimatorOptions,
    JsonValues,
    RuntimeEstimator,
    check_owner,
    converted,
    declared_basis,
    declared_time_of,
    is_time,
    latest,
    on_builder,
    speed_of,
)

#: runs remembered of a kind: its median is to be steady, and follows a change within half of them
KEPT_OF_KIND = 200
#: runs remembered of any other group of jobs, such as a user's: the last ones are most alike, and a
#: job belongs to a dozen groups
KEPT = 15
#: estimates of a way that were held against runs before it may take the median's place
TRIED = 20
#: its mean error by then, as a share of the median's; and that of the way between it and another
BETTER, BETTER_BETWEEN = 0.8, 0.95
#: by how much an older error counts less with each further one: lately, and for long
FADES = (0.98, 0.995)
QUARTER = 6 * 3600.0
#: no run, error or ratio counts as more: sums stay finite
LONGEST, TINY = 1e12, 1e-9

OF_KIND = "the kind"
KIND = f"{OF_KIND}'s median"
DECLARED = "declared time, as the kind's came out"
BETWEEN = "between the kind's median and its declared times"
#: runs of a kind after which a change of them is looked for: looking costs as much as learning
LOOKS_EVERY = 4
#: whose errors are those of all kinds
ALL = "\x1fall kinds"
#: in the place of a ratio, of a run without a declared time: so the last n ratios are those of the
#: last n runs, of which some are forgotten together
UNDECLARED = 0.0


class Errors(msgspec.Struct):
    """The errors of one way for one kind (seconds at speed 1), faded: sums, and their weights."""

    tries: int = 0
    sums: tuple[float, ...] = (0.0,) * len(FADES)
    weights: tuple[float, ...] = (0.0,) * len(FADES)

    def add(self, error: float) -> None:
        """Add an error."""
        self.tries += 1
        self.sums = tuple(f * one + error for f, one in zip(FADES, self.sums, strict=True))
        self.weights = tuple(f * one + 1.0 for f, one in zip(FADES, self.weights, strict=True))

    def over(self, other: Errors) -> float:
        """Return the mean error as a share of another's, lately or for long: the larger."""
        pairs = zip(self.sums, self.weights, other.sums, other.weights, strict=True)
        return max(a * v / max(w * b, TINY) for a, w, b, v in pairs)


class Learned(RuntimeEstimator):
    """The best of several histories for each kind; see above.

    Without a history of the kind: the declared time; for a job without one that of kinds of the
    same name but for numbers, then the default. Failed and cancelled attempts are ignored.
    """

    name = "learned"
    learns = uses_declared = True

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        #: runs (seconds at speed 1) by group; of declared times: how many of them a run took
        self._runs: dict[str, list[float]] = {}
        self._errors: dict[str, dict[str, Errors]] = {}
        #: of all kinds, faded: squares of the distances (logarithms) from the median to
        #: ``DECLARED``, and their products with those to what a run took
        self._distances = (0.0, 0.0)
        #: what each way said when a job was submitted
        self._ways: dict[str, dict[str, float]] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""
        return on_builder(self._chosen(job)[0], builder, self.options.default_time)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return which history the estimate is from, and how many runs are in it."""
        return self._chosen(job)[1]

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Hold what was said of a success against it, and remember it."""
        ways = self._ways.pop(job.id, {})
        work = elapsed * speed_of(builder)
        if outcome != "succeeded" or not is_time(work):
            return
        for name in (job.kind, ALL):
            errors = latest(self._errors, name, {})
            for way, found in ways.items():
                errors.setdefault(way, Errors()).add(min(abs(found - work), LONGEST))
        if KIND in ways and DECLARED in ways and min(ways[KIND], ways[DECLARED], work) > TINY:
            distance = math.log(ways[DECLARED] / ways[KIND])
            new = distance * distance, distance * math.log(work / ways[KIND])
            squares, products = (
                FADES[-1] * a + b for a, b in zip(self._distances, new, strict=True)
            )
            self._distances = squares, products
        for way, group in _groups(job):
            _remember(self._runs, group, work, KEPT_OF_KIND if way == OF_KIND else KEPT)
        declared = _declared_group(job)
        if is_time(job.declared_time) and job.declared_time:
            ratio = max(work / job.declared_time, TINY)
            _remember(self._runs, declared, ratio, KEPT_OF_KIND)
        elif declared in self._runs:
            _remember(self._runs, declared, UNDECLARED, KEPT_OF_KIND)
        tries = self._errors[job.kind].get(KIND, Errors()).tries
        if tries % LOOKS_EVERY == 0 and self._has_kinds(job.kind):
            of_kind = self._runs[f"kind {job.kind}"]
            recent = runs_since_change(of_kind)
            if recent is not None:
                del of_kind[:-recent]
                del self._runs.get(declared, [])[:-recent]

    def _has_kinds(self, kind: str) -> bool:
        runs = (len(self._runs.get(f"kind {name}", ())) for name in self._errors if name != kind)
        return is_one_of_several(len(self._runs[f"kind {kind}"]), runs)

    def _chosen(self, job: Job) -> tuple[float, Basis]:
        found = list(self._candidates(job))
        if job.id not in self._ways:
            latest(self._ways, job.id, {way: time for way, time, _ in found})
        median = next(((time, Basis(way, runs)) for way, time, runs in found if way == KIND), None)
        if median is None:
            return self._without_history(job)
        best, chosen = 1.0, median
        for way, time, runs in found:
            share = self._share(job.kind, way)
            if share < min(best, BETTER_BETWEEN if way == BETWEEN else BETTER):
                best, chosen = share, (time, Basis(way, runs, way in {DECLARED, BETWEEN}))
        return chosen

    def _share(self, kind: str, way: str) -> float:
        """Return the mean error of a way as a share of the median's: infinite, too few are known.

        A young kind has the errors of all kinds.
        """
        for name in (kind, ALL):
            errors = self._errors.get(name, {})
            its, usual = errors.get(way), errors.get(KIND)
            if its is not None and usual is not None and its.tries >= TRIED:
                return its.over(usual)
        return math.inf

    def _without_history(self, job: Job) -> tuple[float, Basis]:
        """Return the estimate for the first jobs of a kind."""
        alike = self._runs.get(_stem_group(job))
        if alike and job.declared_time is None:
            return statistics.median(alike), Basis("kinds of this name but for numbers", len(alike))
        return declared_time_of(job, self.options.default_time), declared_basis(job)

    def _candidates(self, job: Job) -> Iterator[tuple[str, float, int]]:
        """Yield each way's name, estimate (s at speed 1) and number of runs, the kind's first."""
        for way, group in _groups(job):
            if runs := self._runs.get(group):
                yield f"{way}'s median", statistics.median(runs), len(runs)
                last = runs[-2:]
                yield f"{way}'s last two", sum(last) / len(last), len(last)
        if is_time(job.declared_time) and job.declared_time:
            yield "declared time", job.declared_time, 0
            kept = self._runs.get(_declared_group(job), ())
            if ratios := [ratio for ratio in kept if ratio != UNDECLARED]:
                declared = job.declared_time * statistics.median(ratios)
                yield DECLARED, declared, len(ratios)
                yield from self._between(job, declared)

    def _between(self, job: Job, declared: float) -> Iterator[tuple[str, float, int]]:
        """Yield where the run times of all kinds were, between their medians and ``DECLARED``."""
        runs, (squares, products) = self._runs.get(f"kind {job.kind}"), self._distances
        if runs and squares > 0 and (median := statistics.median(runs)) > TINY < declared:
            share = min(max(products / squares, 0.0), 1.0)
            yield BETWEEN, median ** (1 - share) * declared**share, len(runs)

    def dump(self) -> JsonValues:
        """Return runs and errors, those used last at the end."""
        errors = msgspec.to_builtins(self._errors)
        found: JsonValues = {"estimator": self.name, "runs": dict(self._runs), "errors": errors}
        return found | {"distances": list(self._distances)}

    def load(self, state: JsonValues) -> None:
        """Restore runs and errors; StateError if the dump is invalid."""
        check_owner(state, self.name)
        self._ways.clear()
        runs = converted(state, "runs", dict[str, list[float]])
        self._errors = converted(state, "errors", dict[str, dict[str, Errors]])
        squares, products = [
            *filter(math.isfinite, converted(state, "distances", list[float])),
            0.0,
            0.0,
        ][:2]
        self._distances = squares, products
        self._runs = {name: [one for one in kept if is_time(one)] for name, kept in runs.items()}


def _groups(job: Job) -> Iterator[tuple[str, str]]:
    """Yield in which ways a job is like others, each with the name of its group."""
    kind = job.kind
    yield OF_KIND, f"kind {kind}"
    yield "the name but for numbers", _stem_group(job)
    yield "kind and platform", f"kind {kind} on {job.platform}"
    day = int((job.arrived_at or 0.0) // QUARTER % 4)
    yield "kind and part of the day", f"kind {kind} at {day}"
    for key in sorted(job.attributes)[:4]:
        value = job.attributes[key]
        yield f"kind and {key}", f"kind {kind} {key} {value}"
        yield key, f"{key} {value}"
    if len(job.attributes) > 1:
        every = " ".join(f"{key} {value}" for key, value in sorted(job.attributes.items()))
        yield "kind and all attributes", f"kind {kind} {every}"


def _stem_group(job: Job) -> str:
    return "name " + re.sub(r"\d+", "#", job.kind)


def _declared_group(job: Job) -> str:
    return f"declared {job.kind}"


def _remember(runs: dict[str, list[float]], group: str, value: float, keep: int) -> None:
    kept = latest(runs, group, [])
    kept.append(min(value, LONGEST))
    del kept[:-keep]
