"""The doctor: figures of a farm's records, checks of them, and a verdict on each platform."""

from __future__ import annotations

from datetime import tzinfo
from typing import NamedTuple

from farm.core.errors import TraceError
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.records.reading import OnShare, unseen
from farm_twin.diagnosis.evidence import Finding
from farm_twin.diagnosis.figures import FarmFigures, examine
from farm_twin.diagnosis.sanity import Examined, findings
from farm_twin.diagnosis.verdict import Verdict, too_little, verdicts


class Examination(NamedTuple):
    """What the doctor has found."""

    figures: FarmFigures
    findings: list[Finding]
    #: one or more for each platform
    verdicts: list[Verdict]

    @property
    def why_no_platform_is_judged(self) -> str:
        """Why the records say of no platform why its jobs wait; empty: of some they do."""
        reasons = []
        for platform in self.figures.platforms:
            forbidding = [
                finding.text
                for finding in self.findings
                if finding.effect == "forbids" and finding.is_about(platform.platform)
            ]
            reason = "; ".join(forbidding)
            reasons.append(reason or too_little(platform, self.figures.resolution_time))
        return reasons[0] if all(reasons) else ""

    def refuse_doubtful(self) -> None:
        """Raise TraceError if a check of the records has found what weakens a verdict."""
        for finding in self.findings:
            if finding.effect != "noted":
                raise TraceError(f"--strict: {finding.rule}: {finding.text}")


def diagnose(
    bundle: Bundle, zone: tzinfo | None, objective: float, on_share: OnShare = unseen
) -> Examination:
    """Return why the jobs of a farm wait, with the evidence; TraceError as for ``examine``.

    Args:
        bundle: its records.
        zone: in which hours are told.
        objective: a platform is fine if 95 % of its jobs start within this time, seconds.
        on_share: given how much is done, 0 to 1.
    """
    attempts = AttemptColumns.of(bundle.attempts)
    figures = examine(bundle, zone, objective, on_share, attempts)
    examined = Examined(bundle, attempts, figures, objective)
    found = list(findings(examined))
    on_platforms = [
        verdict
        for platform in figures.platforms
        for verdict in verdicts(platform, bundle.manifest, objective, found)
    ]
    return Examination(figures, found, on_platforms)
