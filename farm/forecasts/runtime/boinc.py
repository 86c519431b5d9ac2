"""BOINC's estimates: from this builder's history of the kind, else the kind's, else the plan.

An estimate is made in ``Boinc.estimate``: the job's size in seconds at speed 1, the speed to assume
(``Boinc._assumed``, by the ladder of ``farm.upstream.boinc.estimates``), and size ÷ speed ÷ share
of the time in which the builder computes. ``Boinc.learn`` adds a result to the records, of which
``History`` keeps one for each builder and kind, one for each kind and one for each app.

At the end are the rules of 2010, and those of the old system with duration correction factors.

How BOINC's terms map to a build farm:

=================  ==========================================================================
host               a builder (or, with ``host: pool``, the builders of a pool together)
app version        a job kind; ``app@version`` separates app and version. Kinds that differ only in
                   the number at their end succeed each other, and a builder's record passes to the
                   newer kind: a toolchain upgrade keeps what was learned. Kinds with the same name
                   before the ``@`` are one app, whose versions are normalised together; the kinds
                   without ``@`` form one app
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
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from farm.core.errors import StateError
from farm.core.model import Builder, Job, Outcome
from farm.emulation.client_estimate import available, claimed_speed, is_anonymous
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
from farm.upstream.boinc.claims import MIN_VERSION_SAMPLES, Result, claim, learned, scales
from farm.upstream.boinc.durations import corrected_factor, running_total
from farm.upstream.boinc.estimates import (
    AnonymousSpeed,
    LadderRules,
    Source,
    Speed,
    Usage,
    VersionCandidate,
    anonymous_speed,
    choose,
    speed_2010,
    wall_time,
)
from farm.upstream.boinc.records import (
    App,
    AppVersion,
    HostAppVersion,
    Variance,
    VersionKey,
    after_failure,
    after_success,
    after_valid,
    predecessor,
    with_pending_counted,
)

#: sizes and times are kept within these, so that no quotient of two of them overflows
SMALLEST, LARGEST = 1e-3, 1e12
#: builders' speeds are kept within these, for the same reason
SLOWEST, FASTEST = 1e-6, 1e6
#: maximum number of hosts; beyond that the one that learned longest ago is forgotten
HOSTS_KEPT = 10_000
#: jobs a day that a host may get at most, unless more of its results were valid
DAILY_QUOTA = 100


def bounded(value: float) -> float:
    """Return a size or time within the range of the arithmetic."""
    return min(max(value, SMALLEST), LARGEST)


class Assumed(NamedTuple):
    """The speed that an estimate assumes, and how many results of its source are known."""

    speed: Speed
    samples: int

    @classmethod
    def by(cls, speed: Speed, record: HostAppVersion | None, version: AppVersion | None) -> Assumed:
        """Return a speed with the number of samples of the record from which it is."""
        if speed.source == "host_app_version" and record is not None:
            return cls(speed, int(record.et.n))
        if speed.source == "app_version" and version is not None:
            return cls(speed, int(version.pfc.n))
        return cls(speed, 0)


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
        return min(max(speed_of(builder), SLOWEST), FASTEST)

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected wall-clock time in seconds."""
        size = self.size(job)
        share = 1.0 if builder is None else available(builder)
        time = wall_time(size, self._assumed(job, builder, size).speed.flops, share)
        return time if is_time(time) else bounded(declared_time_of(job, size))

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return the rung of the ladder from which the estimate is taken."""
        assumed = self._assumed(job, builder, self.size(job))
        if assumed.speed.source == "app_version":
            return Basis("the kind on all builders", assumed.samples)
        if assumed.speed.source == "host_app_version":
            host = "pool" if self.options.host == "pool" else "builder"
            return Basis(f"the kind on this {host}", assumed.samples)
        if is_time(job.declared_time) or usable_size(job) is None or not self.known_size_rate:
            return declared_basis(job)
        return Basis("size")

    def _assumed(self, job: Job, builder: Builder | None, size: float) -> Assumed:
        """Return the speed to assume for a job of this size; without a builder for any of speed 1.

        Where no history is long enough BOINC falls back on the host's benchmark, which its client
        has measured. Here the plan stands for it: the builder's peak speed, times the speed that
        the submitter's size and time imply (1 unless both are given).
        """
        record = self._record(job, builder)
        if builder is not None and is_anonymous(builder):
            own = self.anonymous(job, builder)
            has_learned = own.size_scale != 1.0 or own.flops != own.client_flops
            source: Source = "host_app_version" if has_learned else "none"
            return Assumed.by(Speed(own.flops, source), record, None)
        version = self.history.version(job.kind)
        peak = 1.0 if builder is None else self.peak(builder)
        plan = _planned_speed(job, size) * peak
        usage = Usage(peak_flops=peak, projected_flops=plan)
        candidate = VersionCandidate(usage=usage, host=record, version=version)
        chosen = choose([candidate], benchmark=plan, rules=self._rules)
        if chosen is None:
            return Assumed(Speed(plan, "none"), 0)
        _, speed = chosen
        return Assumed.by(speed, record, version)

    def _record(self, job: Job, builder: Builder | None) -> HostAppVersion | None:
        """Return the builder's history with the job's kind."""
        if builder is None:
            return None
        kind = generalised(job) if is_anonymous(builder) else job.kind
        return self.history.host_record(self.host(builder), kind)

    def anonymous(self, job: Job, builder: Builder) -> AnonymousSpeed:
        """Return the speed of a builder that reports its own, and the scale of sizes for it.

        To be asked of anonymous builders only.
        """
        record = self._record(job, builder)
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

    def _assumed(self, job: Job, builder: Builder | None, size: float) -> Assumed:
        version = self.history.version(job.kind)
        scale = 0.0 if version is None else version.pfc_scale
        peak = _planned_speed(job, size)
        if builder is not None:
            peak *= self.peak(builder)
            if is_anonymous(builder):
                scale = 0.0
        record = self._record(job, builder)
        et = Variance() if record is None else record.et
        speed = speed_2010(peak, scale, et, self.options.host_samples)
        return Assumed.by(speed, record, version)


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
        if builder is None or self.host(builder) not in self._factors:
            return super().basis(job, None)
        factor, count = self._factors[self.host(builder)]
        return Basis(f"corrected by {factor:.3g}", count)

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


def _planned_speed(job: Job, size: float) -> float:
    """Return the speed that the submitter's figures imply: 1 unless both are given."""
    return size / bounded(declared_time_of(job, size))


# --- the history ----------------------------------------------------------------------------------

_VERSION = re.compile(r"(?P<plan>.*?)(?P<number>\d+(?:\.\d+)*)?")


def version_key(kind: str) -> VersionKey:
    """Return the app, the plan class and the number in a kind's name."""
    app, _, suffix = kind.partition("@")
    match = _VERSION.fullmatch(suffix)
    plan, number = (match["plan"], match["number"]) if match else (suffix, None)
    parts = tuple(int(part) for part in number.split(".")) if number else ()
    return VersionKey(app=app, plan_class=plan, number=parts)


def app_of(kind: str) -> str:
    """Return the app with whose versions a kind is normalised: "" for kinds without ``@``."""
    app, at, _ = kind.partition("@")
    return app if at else ""


HostRecords = dict[str, HostAppVersion]
"""The records of a host, by job kind."""


class _Dump(msgspec.Struct, omit_defaults=True):
    """The form in which the records are saved."""

    hosts: dict[str, HostRecords] = {}
    versions: dict[str, AppVersion] = {}
    apps: dict[str, App] = {}
    size_rate: float | None = None


class History:
    """Records per (host, kind), per kind and per app."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostRecords] = {}
        self._versions: dict[str, AppVersion] = {}
        self._apps: dict[str, App] = {}
        #: app -> its kinds
        self._kinds: dict[str, list[str]] = {}
        #: size units per second at speed 1, from the first success with a size
        self.size_rate: float | None = None

    def version(self, kind: str) -> AppVersion | None:
        """Return the record of the kind on all hosts, or None."""
        return self._versions.get(kind)

    def app(self, kind: str) -> App:
        """Return the record of the kind's app."""
        return self._apps.get(app_of(kind), App())

    def host_record(self, host: str, kind: str) -> HostAppVersion | None:
        """Return the record of the kind on the host, or of its predecessor, or None."""
        held = self._hosts.get(host)
        if held is None:
            return None
        record = held.get(kind)
        if record is None:
            before = previous_version(held, kind)
            record = None if before is None else held[before]
        return record

    def _take(self, host: str, kind: str) -> tuple[HostRecords, HostAppVersion]:
        """Remove the kind's (or its predecessor's) record from the host's; return both."""
        held = self._hosts.pop(host, None)
        if held is None:
            held = {}
            while len(self._hosts) >= HOSTS_KEPT:
                del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = held  # moves the host to the end: it learned last
        record = held.pop(kind, None)
        if record is None:
            before = previous_version(held, kind)
            record = HostAppVersion(max_jobs_per_day=DAILY_QUOTA)
            if before is not None:
                record = held.pop(before)
        return held, record

    def succeeded(
        self, host: str, kind: str, resource: str, result: Result, *, scale_check: bool = False
    ) -> None:
        """Add a valid result to all records.

        BOINC buffers the samples of a version until its validator's next pass, so that a result is
        claimed for by the average before it. Here every result is validated by itself, so its
        sample is counted at the end.
        """
        held, record = self._take(host, kind)
        version = self._versions.get(kind) or AppVersion(resource=resource)
        claimed = claim(result, record, version, self.app(kind), scale_check=scale_check)
        record, version = learned(result, claimed, record, version)
        record = after_success(record, DAILY_QUOTA)
        held[kind] = after_valid(record)
        if not result.anonymous:  # an anonymous host's app is not a version of the server's
            self._count(kind, with_pending_counted(version))

    def _count(self, kind: str, version: AppVersion) -> None:
        if kind not in self._versions:
            self._kinds.setdefault(app_of(kind), []).append(kind)
        self._versions[kind] = version
        # upstream does it every ten minutes; here there is no clock, and averages move slowly
        if version.pfc.n == MIN_VERSION_SAMPLES + 1 or version.pfc.n % MIN_VERSION_SAMPLES == 0:
            self._normalise(app_of(kind))

    def failed(self, host: str, kind: str) -> None:
        """Record a failure, which changes quota and streak, but no time."""
        held, record = self._take(host, kind)
        held[kind] = after_failure(record, DAILY_QUOTA)

    def _normalise(self, app: str) -> None:
        """Scale the app's versions again: for a new version, and at every hundredth result."""
        kinds = self._kinds[app]
        base, found = scales([self._versions[kind] for kind in kinds])
        if base is None:
            return
        self._apps[app] = App(min_avg_pfc=base)
        for kind, scale in zip(kinds, found, strict=True):
            version = self._versions[kind]
            self._versions[kind] = msgspec.structs.replace(version, pfc_scale=scale)

    def dump(self) -> JsonValues:
        """Return all records as plain JSON values."""
        records = _Dump(self._hosts, self._versions, self._apps, self.size_rate)
        values: JsonValues = msgspec.json.decode(msgspec.json.encode(records))
        return values

    def load(self, state: JsonValues) -> None:
        """Replace all records; StateError names what differs from a dump."""
        try:
            found = msgspec.convert(state, _Dump)
        except msgspec.ValidationError as error:
            raise StateError(f"estimator statistics: {error}") from None
        _check_numbers(state, "")
        self._hosts, self._versions, self._apps = found.hosts, found.versions, found.apps
        self.size_rate = found.size_rate or None
        self._kinds = {}
        for kind in self._versions:
            self._kinds.setdefault(app_of(kind), []).append(kind)


def previous_version(kinds: Iterable[str], kind: str) -> str | None:
    """Return the kind among these whose records a kind takes over; None: it has none to take."""
    if "@" not in kind:
        return None
    by_key = {version_key(other): other for other in kinds}
    before = predecessor(by_key, version_key(kind))
    return None if before is None else by_key[before]


def _check_numbers(value: object, where: str) -> None:
    """Raise StateError at the first invalid number (negative, not finite)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_numbers(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check_numbers(inner, f"{where}[{number}]")
    elif isinstance(value, int | float) and not 0 <= value <= 1e300:
        raise StateError(f"{where}: found {value}, a number from 0 up is allowed")
