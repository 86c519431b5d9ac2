"""BOINC's rule of 2010, as its page on runtime estimation still tells it."""

from __future__ import annotations

from farm.core.model import Builder, Job
from farm.forecasts.runtime.boinc import Boinc, generalised, is_anonymous
from farm.upstream.boinc.averages import Variance
from farm.upstream.boinc.claims import MIN_HOST_SAMPLES
from farm.upstream.boinc.division import ratio


def flops_2010(
    peak: float,
    pfc_scale: float,
    host_history: Variance,
    host_samples: float = MIN_HOST_SAMPLES,
) -> float:
    """Return the estimated speed: the host's own history with enough samples, else peak x scale.

    "Enough" is more than ten (the page says only "sufficient"); a scale of 0 is undefined. No cap,
    no blend: those came later. Source: BOINC's wiki page, and its code of April 2010; the scale
    gave way to peak ÷ the version's average in June 2011.
    """
    if host_history.n > host_samples:
        return ratio(1.0, host_history.avg)
    return peak * pfc_scale if pfc_scale else peak


class Boinc2010(Boinc):
    """Learns as ``boinc`` does, and believes by the rule of 2010."""

    name = "boinc-2010"

    def _speed(self, job: Job, builder: Builder | None, plan: float) -> float:
        if builder is None:
            return flops_2010(plan, self._scale(job), Variance())
        anonymous = is_anonymous(builder)
        kind = generalised(job) if anonymous else job.kind
        record = self.history.host_record(self.host(builder), kind)
        et = Variance() if record is None else record.et
        peak, scale = self.peak(builder), 0.0 if anonymous else self._scale(job)
        return flops_2010(plan * peak, scale, et, self.options.host_samples)

    def _scale(self, job: Job) -> float:
        version = self.history.version(job.kind)
        return 0.0 if version is None else version.pfc_scale
