"""The functions of ``import farm`` for a real farm: doctor and twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import cached_property
from html import escape
from pathlib import Path

from farm.app.runs.advice import ComputedAdvice
from farm.core.errors import InputError
from farm.records.bundle import Bundle, Manifest, is_bundle, with_capacity
from farm.time_zones import zone_named
from farm.units import parse_time
from farm_twin.diagnosis.diagnose import Examination, diagnose
from farm_twin.diagnosis.figures import FarmFigures
from farm_twin.diagnosis.occupancy import refuse_more_than_slots
from farm_twin.importing import load_records
from farm_twin.twins.twin import Twin, write_twin

#: seconds; a shorter wait cannot be aimed at
MIN_OBJECTIVE = 1e-3

Records = str | Path | Iterable[str | Path]
"""A bundle of ``farm import``, or the files of a source as they were fetched."""


class Diagnosis:
    """Why the jobs of a farm wait, as its records show it: ``verdicts``, ``figures``, ``advice``.

    >>> records = farm.simulate("quickstart").save("recorded") / "jobs.csv"
    >>> found = farm.doctor(records)
    >>> [verdict.platform for verdict in found.verdicts]
    ['amd64/virtual', 'win10-64/virtual']
    >>> [remedy.pool for remedy in found.advice.remedies]
    ['amd64-virtual', 'win10-64-virtual']
    """

    def __init__(self, bundle: Bundle, examination: Examination) -> None:
        #: one or more for each platform: what is the matter, in a sentence, how sure that is, and
        #: what it stands on
        self.verdicts = tuple(examination.verdicts)
        #: by platform: load, servers, waits
        self.figures: FarmFigures = examination.figures
        #: what the checks of the records have found
        self.findings = tuple(examination.findings)
        #: where the records are from, and what their reader must know
        self.manifest: Manifest = bundle.manifest
        self._bundle = bundle
        self._examination = examination

    @cached_property
    def advice(self) -> ComputedAdvice:
        """What would shorten the waits, tried in a simulation of the records; or why not.

        It is simulated when it is first asked for.
        """
        from farm_twin.advice_on_records import advice_on_records  # noqa: PLC0415 - it simulates

        return advice_on_records(self._bundle, self._examination)

    def __repr__(self) -> str:
        kinds = {one.platform: one.kind for one in self.verdicts}
        return f"<farm.Diagnosis: {', '.join(f'{name}: {kind}' for name, kind in kinds.items())}>"

    def _repr_html_(self) -> str:
        """Show the verdicts in a notebook."""
        cells = (
            f"<tr><td>{escape(one.platform)}<td>{one.kind}<td>{one.grade}<td>{escape(one.text)}"
            for one in self.verdicts
        )
        return f"<table><tr><th>platform<th>verdict<th>grade<th>{''.join(cells)}</table>"


def doctor(
    records: Records,
    *,
    objective: float | str = "5m",
    source: str | None = None,
    slots: float | None = None,
    zone: str | None = None,
    columns: Mapping[str, str] | None = None,
    workflows: str | Path | None = None,
    strict: bool = False,
) -> Diagnosis:
    """Say why the jobs of a real farm wait: its load, servers and waits, by platform.

    Args:
        records: a bundle of ``farm import``, or files of a source as they were fetched.
        objective: a platform is fine if 95 % of its jobs start within this time (seconds, or as
            ``"5m"``).
        source: whose files they are, as for ``farm import``; default: it is guessed.
        slots: of the whole farm, where the records do not say it.
        zone: the time zone of instants without one, such as ``"Europe/Berlin"``.
        columns: of a table: for each part of a job the column that has it.
        workflows: of GitHub: the folder of the workflow files, which say what jobs need.
        strict: records that a check finds doubtful are refused.

    Raises InputError for records that cannot be read, or are refused.

    >>> records = farm.simulate("quickstart").save("recorded") / "jobs.csv"
    >>> [verdict.kind for verdict in farm.doctor(records).verdicts]
    ['short of servers', 'short of servers']
    """
    seconds = _seconds(objective)
    bundle = _bundle(_paths(records), source, slots, zone, columns, workflows)
    examination = diagnose(bundle, _zone(zone), seconds)
    if strict:
        examination.refuse_doubtful()
    return Diagnosis(bundle, examination)


def twin(
    records: Records,
    out: str | Path,
    *,
    source: str | None = None,
    slots: float | None = None,
    zone: str | None = None,
    columns: Mapping[str, str] | None = None,
    workflows: str | Path | None = None,
) -> Twin:
    """Make a scenario that waits as a real farm did, and hold it against that farm's records.

    The scenario is written in any case, as the best farm that was found in a minute of a processor;
    it can be simulated, and changed. Each of its pools has a grade.

    Args:
        records, source, slots, zone, columns, workflows: as for ``doctor``.
        out: the new scenario file. Records that are no bundle are kept beside it, as one.

    Returns what was found: ``sentence``, ``believable`` (all pools are right on average, or for
    each job), and for each pool its grade, its verdict and the errors on the half of the records
    that it was not made from. Raises InputError.

    >>> records = farm.simulate("quickstart").save("recorded") / "jobs.csv"
    >>> farm.twin(records, "twin.yaml").believable
    True
    """
    paths = _paths(records)
    bundle = _bundle(paths, source, slots, zone, columns, workflows)
    refuse_more_than_slots(bundle)
    return write_twin(bundle, paths[0] if is_bundle(paths[0]) else None, Path(out))


def _bundle(
    paths: Sequence[Path],
    source: str | None,
    slots: float | None,
    zone: str | None,
    columns: Mapping[str, str] | None,
    workflows: str | Path | None,
) -> Bundle:
    folder = None if workflows is None else Path(workflows)
    records = load_records(paths, source, columns, _zone(zone), workflows=folder)
    return with_capacity(records, slots)


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return zone_named(name)
    except ValueError as error:
        raise InputError(f"zone: {error}") from None


def _paths(records: Records) -> list[Path]:
    paths = [Path(records)] if isinstance(records, str | Path) else [Path(one) for one in records]
    if not paths:
        raise InputError("records: found none; allowed: a bundle, or files")
    return paths


def _seconds(objective: float | str) -> float:
    try:
        seconds = parse_time(objective)
    except ValueError as error:
        raise InputError(f"objective: {error}") from None
    if seconds < MIN_OBJECTIVE:
        raise InputError(f"objective: found {objective!r}; allowed: {MIN_OBJECTIVE:g}s or more")
    return seconds
