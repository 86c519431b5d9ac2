"""What one idle core of this machine does in a second, for scenarios whose jobs burn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import msgspec

from farm.live.settings import from_environment
from farm.scenario import Scenario
from workers.burn.burning_jobs import MODES, Burners, BurnSettings


def burn_settings(known: Mapping[str, float] | None = None) -> BurnSettings:
    """Return how jobs burn here: as the environment says, else by the rates that are known.

    Raises InputError for what the environment says wrongly.
    """
    environment = from_environment()
    given = BurnSettings.from_texts(environment.burner, environment.work_rates)
    settings = msgspec.structs.replace(given, rates={**(known or {}), **given.rates})
    settings.arguments()  # reported here, not in the log of a builder host
    return settings


def rates_for(scenario: Scenario, known: Mapping[str, float] | None = None) -> str:
    """Return the rates for the hosts of a live farm: all of them get the same.

    What its burning jobs need and neither the environment says nor is known is measured, with
    care, before the farm is busy. Raises InputError for what the environment says wrongly.
    """
    settings = burn_settings(known)
    modes = {
        mode for source in scenario.workload for mode in getattr(source.options, "mode", None) or ()
    }
    if not modes & MODES:
        return rates_text(settings.rates)
    return rates_text(work_rates(settings, sorted(modes & MODES)))


def work_rates(settings: BurnSettings, modes: Iterable[str] = MODES) -> dict[str, float]:
    """Return this machine's units of work in a second of an idle core, by kernel.

    Those that jobs of these modes need; what the settings do not say is measured, with care.
    Raises RunError when that cannot be done, InputError for settings that cannot be.
    """
    with contextlib.closing(Burners(settings)) as burners:
        return burners.rates(modes)


def rates_text(rates: Mapping[str, float]) -> str:
    """Return rates in the format of FARM_WORK_RATES."""
    return ",".join(f"{name}={rate!r}" for name, rate in rates.items())
