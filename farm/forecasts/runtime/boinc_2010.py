"""BOINC's rule of 2010, as its page on runtime estimation still describes it."""

from __future__ import annotations

from farm.core.model import Builder, Job
from farm.emulation.client import is_anonymous
from farm.forecasts.runtime.boinc import Boinc, generalised
from farm.upstream.boinc.averages import Variance, ratio
from farm.upstream.boinc.claims import MIN_HOST_SAMPLES
from farm.upstream.boinc.ladder import Speed


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


class Boinc2010(Boinc):
    """Learns as ``boinc`` does, and estimates by the rule of 2010."""

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
