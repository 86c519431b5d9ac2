"""Names at the door: a key that carries seconds says so (``_s``).

Inside the house every instant ends in ``_at`` and every span in ``_time``. One rule turns a
field's name into its key in a file, so that no file's keys are spelled by hand.
"""

from __future__ import annotations

_SECONDS = frozenset({"at", "boot_delay", "lifetime", "makespan", "run_phase"})
"""Fields in seconds whose name the rule below would not recognise."""


def door_name(name: str) -> str:
    """Return the key that a field is written under: ``service_time`` is ``service_time_s``."""
    if name in _SECONDS or name.endswith(("_at", "_time")):
        return name + "_s"
    return name
