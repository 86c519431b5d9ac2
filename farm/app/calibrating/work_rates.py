"""What one idle core of this machine does in a second, for scenarios whose jobs burn."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farm.live.settings import from_environment
from farm.scenario import Scenario
from workers.burn.burners import MODES, BurnSettings, rates_text
from workers.burn.calibration import work_rates


def burn_settings(known: Mapping[str, float] | None = None) -> BurnSettings:
    """Return how jobs burn here: as the environment says, else by the rates that are known.

    Raises InputError for what the environment says wrongly.
    """
    environment = from_environment()
    said = BurnSettings.from_texts(environment.burner, environment.work_rates)
    settings = msgspec.structs.replace(said, rates={**(known or {}), **said.rates})
    settings.arguments()  # told here, not in the log of a builder host
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
