"""BOINC's estimates: from this builder's history of the kind, else the kind's, else the plan.

Today's, and at the end those of 2010 and of the old system with duration correction factors.

How BOINC's terms map to a build farm:

=================  ==========================================================================
host               a builder (or, with ``host: pool``, the builders of a pool together)
app version        a job kind; ``app@version`` separates app and version
size (fpops)       ``Job.size`` ÷ ``size_rate``, else the declared time, else the default:
                   always seconds on a builder of speed 1, so that all figures stay near 1.
                   Without a ``size_rate`` the first success with a size sets it: BOINC's unit is
                   given by its benchmarks, and here sizes may be KB as well as FLOPs
peak flops         the builder's speed
plan class figure  size ÷ declared time x speed
valid result       a success; failures move quota and streak only, cancellations nothing
on/active share    the builder's label ``availability``, from 0.1 to 1
anonymous          a builder labelled ``anonymous: true``: its speed is what it claims by its label
                   ``claimed_speed``, else its benchmark, which is the builder's speed
resource           the job's attribute ``resource``: cpu (default) or gpu
=================  ==========================================================================
"""

from __future__ import annotations

import math

from farm.core.model import Builder, Job, Outcome
from farm.emulation.client import available, claimed_speed, is_anonymous
from farm.forecasts.runtime.boinc_history import HOSTS_KEPT, History
from farm.forecasts.runtime.interface import (
    Basis,
    EstimatorOptions,
    JobProgress,
    JsonValues,
    RuntimeEstimator,
    check_owner,
    converted,
    declared_basis,
    declared_time_of,
    is_time,
    speed_of,
)
from farm.upstream.boinc.averages import Variance
from farm.upstream.boinc.claims import Result
from farm.upstream.boinc.durations import corrected_factor, running_total, wall_time
from farm.upstream.boinc.ladder import (
    AnonymousSpeed,
    LadderRules,
    Speed,
    Usage,
    VersionCandidate,
    anonymous_speed,
    choose,
    speed_2010,
)

#: sizes and times are kept within these, so that no quotient of two of them overflows
SMALLEST, LARGEST = 1e-3, 1e12


def bounded(value: float) -> float:
    """Return a size or time within the range of the arithmetic."""
    return min(max(value, SMALLEST), LARGEST)


class Boinc(RuntimeEstimator):
    """Runtime estimation as BOINC's server does it today."""

    name = "boinc"
    learns = True

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        self.history = History()
        self._rules = LadderRules(
            host_samples=self.options.host_samples, version_samples=self.options.kind_samples
        )

    def host(self, builder: Builder) -> str:
        """Return the host to whose history a builder's jobs belong."""
        return builder.pool if self.options.host == "pool" else builder.id

    @property
    def known_size_rate(self) -> float | None:
        """Size units per second at speed 1; None: not known yet."""
        return self.options.size_rate or self.history.size_rate

    def size(self, job: Job) -> float:
        """Return the job's size in nominal seconds on a builder of speed 1."""
        rate = self.known_size_rate
        if rate is not None and (units := usable_size(job)) is not None:
            return bounded(units / rate)
        return bounded(declared_time_of(job, self.options.default_time))

    @staticmethod
    def peak(builder: Builder) -> float:
        """Return the builder's speed, limited to the range of the arithmetic."""
        return min(max(speed_of(builder), 1e-6), 1e6)

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected wall-clock time in seconds."""
        size = self.size(job)
        plan = size / bounded(declared_time_of(job, size))  # nominal speed: 1 unless both are given
        share = 1.0 if builder is None else available(builder)
        time = wall_time(size, self._believed(job, builder, plan).flops, share)
        return time if is_time(time) else bounded(declared_time_of(job, size))

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return the rung of the ladder from which the estimate is taken."""
        speed = self._believed(job, builder, 1.0)
        if speed.source == "none":
            declared = declared_basis(job)
            sized = usable_size(job) is not None and not is_time(job.declared_time)
            return Basis("size") if sized and self.known_size_rate else declared
        kind = job.kind
        version = self.history.version(kind)
        if speed.source == "app_version":
            return Basis("the kind on all builders", int(version.pfc.n) if version else 0)
        if builder is not None and is_anonymous(builder):
            kind = generalised(job)
        record = None if builder is None else self.history.host_record(self.host(builder), kind)
        host = "pool" if self.options.host == "pool" else "builder"
        return Basis(f"the kind on this {host}", 0 if record is None else int(record.et.n))

    def _believed(self, job: Job, builder: Builder | None, plan: float) -> Speed:
        """Return the speed to assume; ``plan`` is what the submitter's figures imply."""
        if builder is not None and is_anonymous(builder):
            own = self.anonymous(job, builder)
            learned = own.size_scale != 1.0 or own.flops != own.client_flops
            return Speed(own.flops, "host_app_version" if learned else "none")
        peak = 1.0 if builder is None else self.peak(builder)
        record = None if builder is None else self.history.host_record(self.host(builder), job.kind)
        candidate = VersionCandidate(
            usage=Usage(peak_flops=peak, projected_flops=plan * peak),
            host=record,
            version=self.history.version(job.kind),
        )
        chosen = choose([candidate], plan * peak, self._rules)
        return Speed(plan * peak, "none") if chosen is None else chosen[1]

    def anonymous(self, job: Job, builder: Builder) -> AnonymousSpeed:
        """Return the speed of a builder that reports its own, and the scale of sizes for it."""
        record = self.history.host_record(self.host(builder), generalised(job))
        et = None if record is None else record.et
        peak = self.peak(builder)
        return anonymous_speed(claimed_speed(builder), peak, et, self.options.host_samples)

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return the size that an anonymous builder is sent, in seconds at speed 1; None: others.

        It is scaled so that the builder, which keeps its own speed, estimates as the server does.
        """
        if not is_anonymous(builder):
            return None
        return self.size(job) * self.anonymous(job, builder).size_scale

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Add a success to the averages, a failure to quota and streak."""
        anonymous = is_anonymous(builder)
        kind = generalised(job) if anonymous else job.kind
        host = self.host(builder)
        if outcome == "failed":
            self.history.failed(host, kind)
        elif outcome == "succeeded" and is_time(elapsed):
            computing = min(elapsed * available(builder), LARGEST)
            self._settle_size_rate(job, computing * self.peak(builder))
            result = Result(
                elapsed=computing,
                flops=self.peak(builder),
                size=self.size(job),
                turnaround=min(elapsed, LARGEST),
                anonymous=anonymous,
            )
            resource = "gpu" if job.attributes.get("resource") == "gpu" else "cpu"
            check = self.options.host_scale_check
            self.history.succeeded(host, kind, resource, result, scale_check=check)

    def _settle_size_rate(self, job: Job, work: float) -> None:
        """Derive the unit of sizes from the first success with a size."""
        if self.history.size_rate is None and (units := usable_size(job)) is not None:
            self.history.size_rate = min(max(units / bounded(work), 1e-300), 1e300)

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, progress: JobProgress | None = None
    ) -> float:
        """Return the expected remaining time of a running job as BOINC's client does.

        Without progress reports the fraction done is assumed to approach 1 exponentially, so a job
        that has outrun its estimate gets less and less; with reports, these count more and more.
        """
        if not is_time(elapsed):
            elapsed = 0.0
        if progress is None or not 0 <= progress.done <= 1:
            progress = JobProgress(0.0, elapsed)
        static = self.estimate(job, builder)
        rest = running_total(elapsed, static, progress.done, progress.elapsed) - elapsed
        return max(rest, 0.0) if rest < math.inf else self.options.overdue_time

    def dump(self) -> JsonValues:
        """Return all records as plain JSON values."""
        return {"estimator": self.name, **self.history.dump()}

    def load(self, state: JsonValues) -> None:
        """Replace all records by dumped ones; StateError if the dump is invalid."""
        check_owner(state, self.name)
        self.history.load({key: value for key, value in state.items() if key != "estimator"})


class Boinc2010(Boinc):
    """Learns as ``boinc`` does, and estimates by the rule of 2010, as BOINC's page still says."""

    name = "boinc-2010"

    def _believed(self, job: Job, builder: Builder | None, plan: float) -> Speed:
        version = self.history.version(job.kind)
        scale = 0.0 if version is None else version.pfc_scale
        if builder is None:
            return speed_2010(plan, scale, Variance())
        kind = job.kind
        if is_anonymous(builder):
            kind, scale = generalised(job), 0.0
        record = self.history.host_record(self.host(builder), kind)
        et = Variance() if record is None else record.et
        return speed_2010(plan * self.peak(builder), scale, et, self.options.host_samples)


class BoincDcf(Boinc):
    """BOINC's old system: size ÷ benchmark x a factor of the host, from jobs of all kinds alike.

    It corrects errors that all kinds have in common, and no others: that is why BOINC gave it up.
    A waiting job has no host, and no factor. Source: the first part of BOINC's page on run times.
    """

    name = "boinc-dcf"

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        #: host -> its factor, and the number of successes behind it
        self._factors: dict[str, tuple[float, int]] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected wall-clock time in seconds."""
        if builder is None:
            return self._uncorrected(job, 1.0)
        factor, _ = self._factors.get(self.host(builder), (1.0, 0))
        return self._uncorrected(job, self.peak(builder)) * factor / available(builder)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return whether the host's factor is known, and from how many successes."""
        if builder is not None and (found := self._factors.get(self.host(builder))) is not None:
            return Basis(f"corrected by {found[0]:.3g}", found[1])
        return super().basis(job, None)

    def _uncorrected(self, job: Job, speed: float) -> float:
        return bounded(declared_time_of(job, self.size(job))) / speed

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return None: clients of that time corrected by themselves."""
        return None

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Move the host's factor with a success."""
        if outcome != "succeeded" or not is_time(elapsed):
            return
        computing, speed = min(elapsed * available(builder), LARGEST), self.peak(builder)
        self._settle_size_rate(job, computing * speed)
        host = self.host(builder)
        factor, count = self._factors.pop(host, (1.0, 0))
        while len(self._factors) >= HOSTS_KEPT:  # the first one learned longest ago
            del self._factors[next(iter(self._factors))]
        moved = corrected_factor(factor, computing, self._uncorrected(job, speed))
        self._factors[host] = moved, count + 1

    def dump(self) -> JsonValues:
        """Return the factors as plain JSON values."""
        factors = {host: list(found) for host, found in self._factors.items()}
        return {"estimator": self.name, "factors": factors, "size_rate": self.history.size_rate}

    def load(self, state: JsonValues) -> None:
        """Replace the factors by dumped ones; StateError if the dump is invalid."""
        check_owner(state, self.name)
        found = converted(state, "factors", dict[str, tuple[float, int]])
        self.history.load({"size_rate": state.get("size_rate")})
        self._factors = {
            host: (min(max(factor, 0.01), 100.0), max(count, 0))
            for host, (factor, count) in found.items()
        }


def usable_size(job: Job) -> float | None:
    """Return the job's size in its own unit; None if it is not a finite number above 0."""
    return job.size if job.size is not None and 0.0 < job.size < math.inf else None


def generalised(job: Job) -> str:
    """Return the key of an anonymous host's history: the app and the resource."""
    resource = "gpu" if job.attributes.get("resource") == "gpu" else "cpu"
    return f"anonymous:{job.kind.partition('@')[0]}:{resource}"
