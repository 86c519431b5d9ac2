"""What one idle core of this machine does in a second, for scenarios whose jobs burn."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farm.live.settings import from_environment
from farm.scenario import Scenario
from workers.calibration import work_rates
from workers.stress import MODES, BurnSettings, rates_text


def burn_settings(known: Mapping[str, float] | None = None) -> BurnSettings:
    """Return how jobs burn here: as the environment says, else by the rates that are known.

    Raises InputError for what the environment says wrongly.
    """
    environment = from_environment()
    said = BurnSettings.from_texts(environment.burner, environment.work_rates)
    return msgspec.structs.replace(said, rates={**(known or {}), **said.rates})


def rates_for(scenario: Scenario, known: Mapping[str, float] | None = None) -> str:
    """Return the rates for the hosts of a live run; empty when no source has burning jobs.

    What neither the environment says nor is known is measured, with care and before the farm is
    busy, and all hosts get the same. Raises InputError for what the environment says wrongly.
    """
    modes = {mode for source in scenario.workload for mode in source.options.mode or ()}
    if not modes & MODES:
        return ""
    return rates_text(work_rates(burn_settings(known), sorted(modes & MODES)))
