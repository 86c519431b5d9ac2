"""The runtime estimators by name."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.errors import InputError, not_among
from farm.forecasts.runtime.boinc import Boinc, Boinc2010, BoincDcf
from farm.forecasts.runtime.declared import Declared
from farm.forecasts.runtime.interface import EstimatorOptions, RuntimeEstimator
from farm.forecasts.runtime.last_three import LastThree
from farm.forecasts.runtime.launchpad import Launchpad
from farm.forecasts.runtime.learned import Learned
from farm.forecasts.runtime.oracle import Oracle

ESTIMATORS: dict[str, Callable[[EstimatorOptions], RuntimeEstimator]] = {
    "boinc": Boinc,
    "boinc-2010": Boinc2010,
    "boinc-dcf": BoincDcf,
    "declared": Declared,
    "last-3": LastThree,
    "learned": Learned,
    "launchpad": Launchpad,
    "oracle": Oracle,
}


def make_estimator(name: str, options: EstimatorOptions | None = None) -> RuntimeEstimator:
    """Return a new estimator without history; the InputError lists the known names."""
    factory = ESTIMATORS.get(name)
    if factory is None:
        raise InputError(f"runtime_estimates: {not_among(name, sorted(ESTIMATORS))}")
    return factory(options or EstimatorOptions())
