"""The runtime estimators by name."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.errors import InputError, not_among
from farm.core.registry import Registry
from farm.forecasts.runtime.interface import EstimatorOptions, RuntimeEstimator

ESTIMATORS: Registry[Callable[[EstimatorOptions], RuntimeEstimator]] = Registry(
    {
        "boinc": "farm.forecasts.runtime.boinc:Boinc",
        "boinc-2010": "farm.forecasts.runtime.boinc:Boinc2010",
        "boinc-dcf": "farm.forecasts.runtime.boinc:BoincDcf",
        "declared": "farm.forecasts.runtime.declared:Declared",
        "last-3": "farm.forecasts.runtime.last_three:LastThree",
        "learned": "farm.forecasts.runtime.learned:Learned",
        "launchpad": "farm.forecasts.runtime.launchpad:Launchpad",
        "oracle": "farm.forecasts.runtime.oracle:Oracle",
    }
)


def make_estimator(name: str, options: EstimatorOptions | None = None) -> RuntimeEstimator:
    """Return a new estimator without history; the InputError lists the known names."""
    factory = ESTIMATORS.get(name)
    if factory is None:
        raise InputError(f"runtime_estimates: {not_among(name, sorted(ESTIMATORS))}")
    return factory(options or EstimatorOptions())
