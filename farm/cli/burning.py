"""What one idle core of this machine does in a second, for scenarios whose jobs burn."""

from __future__ import annotations

from farm.live.settings import from_environment
from farm.scenario import Scenario
from workers.calibration import work_rates
from workers.stress import MODES, parse_rates, rates_text


def rates_for(scenario: Scenario) -> str:
    """Return the rates for the hosts of a live run; empty when no source has burning jobs.

    They are measured before the farm is busy, unless FARM_WORK_RATES says them, and all hosts get
    the same. Raises InputError for what the environment says wrongly.
    """
    if not any(MODES & set(source.options.mode or ()) for source in scenario.workload):
        return ""
    settings = from_environment()
    given = parse_rates(settings.work_rates)
    return rates_text({**(work_rates(settings.burner or "auto") if not given else {}), **given})
