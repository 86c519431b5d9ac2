"""Names of JSON keys: one with seconds ends in ``_s``.

In the code every instant ends in ``_at`` and every span in ``_time``. One rule turns a field's
name into its key in a file, so that no keys are written by hand.
"""

from __future__ import annotations

_SECONDS = frozenset({"at", "boot_delay", "lifetime", "makespan", "run_phase"})
"""Fields in seconds that the rule does not recognise by their names."""


def json_name(name: str) -> str:
    """Return the key of a field in files: ``service_time`` is ``service_time_s``."""
    if name in _SECONDS or name.endswith(("_at", "_time")):
        return name + "_s"
    return name
