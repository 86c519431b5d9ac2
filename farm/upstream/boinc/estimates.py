"""BOINC's estimate, top to bottom: which history is used, the speed that it shows, the time.

1. ``climb_ladder`` looks for the best history that is long enough: that of this host with the
   version, else that of the version on all hosts, else the host's *benchmark*, which is the speed
   that its client measured of one of its processors. It gives a speed.
2. ``capped`` limits the speed that a host's own history shows, as a short one may hold freak
   results: to ``SPEED_RATIO_LIMIT`` times the speed that was assumed without it.
3. ``compare`` blends that speed with the plan, which is what the version claims for itself. The
   more results there are, the less the plan counts. ``choose`` takes the version that is fastest by
   this figure, and that is all that the blend is for: the winner's speed is that of its history,
   now capped relative to the blend. Where a host has one version, as in a farm, only the cap is
   left of it.
4. ``wall_time`` divides the job's size by the speed, and by the share of the time in which the host
   computes.

``records`` explains the original's ``et``, ``pfc`` and ``pfc_scale``. All speeds are *flops*,
floating point operations per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from farm.upstream.boinc.claims import MIN_VERSION_SAMPLES
from farm.upstream.boinc.records import (
    MIN_HOST_SAMPLES,
    AppVersion,
    HostAppVersion,
    Variance,
    ratio,
)

#: a host's history makes it at most this much faster than assumed: a few freak results (jobs that
#: ended at once) would promise that it does any job at once
SPEED_RATIO_LIMIT = 250.0
#: a GPU without any history counts like this number of processors
GPU_TO_CPU = 10.0
#: added to an average before a division by it, as in the original, so that it is never by 0
TINY = 1e-18
#: the least share of the time in which a host is believed to compute
MIN_FRACTION = 0.1
#: replaces a job's size that was not given
DEFAULT_SIZE = 1e12
#: what is left of the speed of a version that never worked on the host
NEVER_WORKED_PENALTY = 0.01
#: share of the requests in which such a version is not penalised, so that it gets another chance
NEVER_WORKED_SPARED = 0.01

Source = Literal["host_app_version", "app_version", "none"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a version would use of a host, and its assumed speed there."""

    #: the speed of all processors that it would use, if they were used fully
    peak_flops: float
    #: the plan: the speed that the version claims for this host
    projected_flops: float
    ncpus: float = 1.0
    gpus: float = 0.0


class LadderRules(msgspec.Struct, frozen=True, kw_only=True):
    """How the ladder is configured."""

    #: more than this many samples of the host's are enough
    host_samples: float = MIN_HOST_SAMPLES
    #: more than this many samples of the version's are enough
    version_samples: float = MIN_VERSION_SAMPLES
    #: use the benchmark alone
    no_stats: bool = False
    #: take the host's speed from its peak flop counts instead of its times
    from_host_pfc: bool = False


DEFAULT_RULES = LadderRules()


class Speed(msgspec.Struct, frozen=True):
    """An assumed speed, its source, and whether the cap cut it."""

    flops: float
    source: Source
    capped: bool = False


# --- the ladder and its cap -----------------------------------------------------------------------


def climb_ladder(
    usage: Usage,
    benchmark: float,
    host: HostAppVersion | None,
    version: AppVersion | None,
    rules: LadderRules = DEFAULT_RULES,
) -> Speed:
    """Return the speed by the first history that is long enough, not capped yet.

    Args:
        usage: what the version would use of the host.
        benchmark: the measured speed of one of the host's processors.
        host: the host's history with the version; None: it has none.
        version: the version's history on all hosts; None: it has none.
        rules: how many samples are enough.
    """
    if not rules.no_stats and host is not None and host.et.n > rules.host_samples:
        if rules.from_host_pfc:
            return Speed(usage.peak_flops / (host.pfc.avg + TINY), "host_app_version")
        return Speed(ratio(1.0, host.et.avg), "host_app_version")
    if not rules.no_stats and version is not None and version.pfc.n > rules.version_samples:
        return Speed(ratio(usage.peak_flops, version.pfc.avg), "app_version")
    return Speed(benchmark * (usage.ncpus + GPU_TO_CPU * usage.gpus), "none")


def capped(speed: Speed, assumed_flops: float) -> Speed:
    """Return the speed; one of the host's own history is limited relative to the assumed one.

    The average over all hosts has too many results to be freakish, so it is not capped.
    """
    limit = assumed_flops * SPEED_RATIO_LIMIT
    if speed.source == "host_app_version" and speed.flops > limit:
        return Speed(limit, speed.source, capped=True)
    return speed


# --- which version --------------------------------------------------------------------------------


class VersionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A version that could serve a request."""

    usage: Usage
    host: HostAppVersion | None = None
    version: AppVersion | None = None
    #: a draw from the standard normal distribution, made by the caller
    normal_draw: float = 0.0
    #: a uniform draw from 0 to 1: at 0.01 or less a version that never worked is not penalised
    uniform_draw: float = 0.0


class VersionFigures(msgspec.Struct, frozen=True):
    """A version's figures in the selection."""

    #: the ladder's speed, not capped
    measured: Speed
    #: the plan blended with it: the more samples, the less the plan counts
    flops: float
    #: the random factor, 1 without randomness
    factor: float = 1.0

    @property
    def rank(self) -> float:
        """The figure that is compared, and stored when the version wins."""
        return self.flops * self.factor

    @property
    def speed_when_chosen(self) -> Speed:
        """The winner's speed: the ladder's, capped relative to the figure that was compared."""
        return capped(self.measured, self.rank)


def compare(
    candidate: VersionCandidate,
    benchmark: float,
    rules: LadderRules = DEFAULT_RULES,
    random_factor: float = 0.0,
) -> VersionFigures:
    """Return how a version compares.

    Args:
        candidate: the version.
        benchmark: the host's, for a version of which no history is long enough.
        rules: how many samples are enough.
        random_factor: 0 means no randomness (BOINC uses 1).
    """
    usage = candidate.usage
    host = candidate.host
    plan = usage.projected_flops
    measured = climb_ladder(usage, benchmark, host, candidate.version, rules)
    flops = plan
    samples = 1
    if host is not None:
        samples = max(int(host.pfc.n), 1)
        if samples > 1:
            flops = (capped(measured, plan).flops * (samples - 1) + plan) / samples
        never_worked = host.pfc.n == 0 and host.max_jobs_per_day == 1 and not host.consecutive_valid
        if never_worked and candidate.uniform_draw > NEVER_WORKED_SPARED:
            flops *= NEVER_WORKED_PENALTY
    factor = max(0.1, 1.0 + random_factor * candidate.normal_draw / samples)
    return VersionFigures(measured, flops, factor)


def choose(
    candidates: Sequence[VersionCandidate],
    benchmark: float,
    rules: LadderRules = DEFAULT_RULES,
    random_factor: float = 0.0,
) -> tuple[int, Speed] | None:
    """Return position and speed of the version with the largest rank, the first on a tie.

    None if there is no version with a rank above 0. Arguments: see ``compare``.
    """
    best: tuple[int, VersionFigures] | None = None
    best_rank = 0.0
    for position, candidate in enumerate(candidates):
        figures = compare(candidate, benchmark, rules, random_factor)
        if figures.rank > best_rank:
            best = position, figures
            best_rank = figures.rank
    if best is None:
        return None
    position, figures = best
    return position, figures.speed_when_chosen


# --- the time -------------------------------------------------------------------------------------


def clamped_fraction(share: float) -> float:
    """Return the share within 0.1 and 1."""
    return min(max(share, MIN_FRACTION), 1.0)


def computing_time(size: float, flops: float) -> float:
    """Return seconds of computing; a size of 0 or less counts as 1e12."""
    return ratio(size if size > 0 else DEFAULT_SIZE, flops)


def wall_time(size: float, flops: float, fraction: float) -> float:
    """Return wall-clock seconds on a host that computes this share of the time."""
    return computing_time(size, flops) / clamped_fraction(fraction)


# --- other rules ----------------------------------------------------------------------------------


def speed_2010(
    peak: float,
    pfc_scale: float,
    host_history: Variance,
    host_samples: float = MIN_HOST_SAMPLES,
) -> Speed:
    """Return the estimated speed: from the host's history if long enough, else peak x scale.

    "Long enough" means more than ten samples (the page says only "sufficient"); a scale of 0 is
    undefined. No cap and no blend: those came later. Source: BOINC's wiki page, and its code of
    April 2010; the scale was replaced by peak ÷ the version's average in June 2011.
    """
    if host_history.n > host_samples:
        return Speed(ratio(1.0, host_history.avg), "host_app_version")
    return Speed(peak * (pfc_scale or 1.0), "app_version" if pfc_scale else "none")


Resource = Literal["cpu", "nvidia", "ati", "intel", "apple"]

_RESOURCE_NUMBERS: dict[str, int] = {"cpu": 2, "nvidia": 3, "ati": 4, "intel": 5, "apple": 6}


class AnonymousSpeed(msgspec.Struct, frozen=True):
    """The speed assumed by the server, by the client, and the ratio of the two."""

    flops: float
    client_flops: float
    size_scale: float = 1.0


def generalised_version(app: int, resource: Resource) -> int:
    """Return the number under which a host's history with an app and a resource is kept."""
    return app * 1_000_000 + _RESOURCE_NUMBERS[resource]


def anonymous_speed(
    claimed_flops: float,
    benchmark: float,
    et: Variance | None,
    host_samples: float = MIN_HOST_SAMPLES,
) -> AnonymousSpeed:
    """Return the speed of a host's own version; no claim (0) means its benchmark.

    Its history counts from more than ``host_samples`` samples on if the mean time per size is not
    0, and makes it at most ``SPEED_RATIO_LIMIT`` times faster than claimed.
    """
    client = claimed_flops or benchmark
    if et is None or et.n <= host_samples or et.avg <= 0 or client <= 0:
        return AnonymousSpeed(client, client)
    flops = min(1.0 / et.avg, client * SPEED_RATIO_LIMIT)
    return AnonymousSpeed(flops, client, client / flops)
