"""Why emulated builders are lost, as the event log says it."""

from __future__ import annotations

LIFETIME_OVER = "its lifetime is over"
AS_PLANNED = "lost, as the scenario says"
