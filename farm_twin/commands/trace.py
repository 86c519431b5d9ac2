"""``farm admin trace``: shows, cuts, scales, merges and imitates the records of a farm."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from farm.core.errors import InputError
from farm.records.bundle import Bundle, read_bundle, write_bundle
from farm.results.descriptive_statistics import Spread
from farm.results.formatting import readable_ratio, readable_span
from farm.terminal.cells import folding, numbers
from farm.terminal.command_help import command_group
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import note, print_json, progress, reading_progress, remark
from farm.terminal.tables import Listing, story
from farm.units import many
from farm.whole_files import write_document
from farm_twin.bundles.merging import merged
from farm_twin.bundles.scaling import scaled
from farm_twin.bundles.slicing import instant_of, sliced
from farm_twin.diagnosis.contents import Contents, PlatformContents, contents_of
from farm_twin.twins.drawn_workload import workload_text

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle of farm import.")]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="OUT", help="A new directory for the new bundle.")
]
HEADINGS = (
    "jobs", "per hour", "mean run", "p50", "p95", "waited", "mean wait", "p50", "p95",
    "cancelled waiting", "unknown waits", "names", "runners", "slots", "users",
)  # fmt: skip
_NEXT = re.compile(r",(?=[\w.-]+=)")


@command_group
def trace() -> None:
    """Show, cut, scale, merge or imitate the records of a farm."""


@trace.command()
def show(path: BundlePath, as_json: AsJson = False) -> None:
    """Show what a bundle holds; farm doctor says what it means.

    The p50 and p95 wait count waits that were broken off as longer (Kaplan and Meier).

    Examples:
        farm admin trace show mine  what it holds
        farm admin trace show mine --json
        farm admin trace show other
    """
    bundle = _read(path)
    found = contents_of(bundle)
    if as_json:
        print_json({"manifest": bundle.manifest, "contents": found})
        return
    table = Listing(
        (*folding("platform"), *numbers(*HEADINGS)),
        map(_row, found.platforms),
        caption="p50 and p95 waits count those that were broken off as longer",
        first_to_go=(
            "users",
            "names",
            "slots",
            "runners",
            "unknown waits",
            "per hour",
            "cancelled waiting",
            "waited",
        ),
    )
    note(story(_story(bundle, found)), "", table)


def _story(bundle: Bundle, found: Contents) -> list[tuple[str, object]]:
    known = bundle.manifest
    users = [f"{name} ({count:,})" for name, count in found.users.items()]
    others = max(one.users for one in found.platforms) - len(users)
    return [
        ("source", f"{known.source}: {many(len(known.files), 'file')}"),
        ("window", f"{known.begins} to {known.ends}"),
        ("zone", known.zone),
        ("arrivals", f"during {readable_span(found.hours * 3600)}"),
        ("records", known.summary()),
        *(("noted", f"{count:,} {why}") for why, count in known.noted.items()),
        *(("made by", one) for one in known.history),
        ("names", "replaced by hashes" if known.anonymized else "as recorded"),
        ("users", ", ".join(users) + (" …" if others > 0 else "") or "none recorded"),
        ("attributes", ", ".join(found.attributes) or "none"),
    ]


def _row(one: PlatformContents) -> tuple[str, ...]:
    return (
        one.platform or "(no labels)",
        f"{one.attempts:,}",
        readable_ratio(one.arrivals_per_hour),
        *_spread(one.service_times),
        f"{one.waits.count:,}",
        readable_span(one.waits.mean),
        readable_span(one.wait_p50),
        readable_span(one.wait_p95),
        f"{one.censored:,}",
        f"{one.unknown_waits:,}",
        f"{one.kinds:,}",
        f"{one.runners:,}",
        f"{one.slots:,}",
        f"{one.users:,}",
    )


def _spread(one: Spread) -> tuple[str, str, str]:
    return readable_span(one.mean), readable_span(one.p50), readable_span(one.p95)


@trace.command("slice")
def cut(
    path: BundlePath,
    out: Out,
    begin: Annotated[str | None, typer.Option("--from", metavar="TIME")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME")] = None,
    where: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE,…")] = None,
    quiet: Quiet = False,
) -> None:
    """Cut a window of time, or a part of the jobs, out of a bundle.

    A job belongs to the window in which it arrived. Those that waited or ran when the window began
    are kept as well, as they held the runners: what they waited is true, and rates are those of
    the window. All keep their own instants, also those that end after the window. A runner is
    there from its first kept job to its last.

    Args:
        begin: The window's begin: a time as 2026-11-02T09:00 (in the bundle's zone), or a span
            from the first arrival as 36h. Default: the first arrival.
        end: The window's end, likewise; jobs that arrived then, or later, are left out. Default:
            the last arrival.
        where: Only jobs of this platform, kind, user, runner, matrix, result or attribute, such as
            user=ann,kind=build; several values of one name are alternatives; repeatable.

    Examples:
        farm admin trace slice mine -o week --from 2026-11-02 --to 2026-11-09
        farm admin trace slice mine -o anns --where user=ann
        farm admin trace slice mine -o day --from 24h --to 48h  spans from the first arrival
    """
    _check_new(out)
    bundle = _read(path)
    first = None if begin is None else instant_of(bundle, begin, "--from")
    last = None if end is None else instant_of(bundle, end, "--to")
    if begin is None and end is None and not where:
        raise InputError("slice: found no part; allowed: --from, --to, --where, or several")
    _write(out, sliced(bundle, first, last, _where(where or ())), quiet=quiet)


def _where(texts: list[str] | tuple[()]) -> Mapping[str, set[str]]:
    """Return the allowed values by name; a comma that no name follows is part of a value."""
    chosen: dict[str, set[str]] = defaultdict(set)
    for pair in (pair for text in texts for pair in _NEXT.split(text)):
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InputError(f"--where: found {pair!r:.60}; allowed: NAME=VALUE, as user=ann")
        chosen[name].add(value)
    return chosen


@trace.command()
def scale(
    path: BundlePath,
    out: Out,
    arrivals: Annotated[float, typer.Option(metavar="FACTOR")] = 1.0,
    service_times: Annotated[float, typer.Option(metavar="FACTOR")] = 1.0,
    seed: Annotated[int, typer.Option()] = 1,
    quiet: Quiet = False,
) -> None:
    """Make a load of another size from a bundle: a trace for scenarios, without recorded waits.

    Args:
        arrivals: How many jobs for each recorded one. Of what was released together (a matrix, a
            job's attempts), whole releases are left out at random, or repeated at a random instant
            of the same hour, so that the pattern of days and weeks stays.
        service_times: By how much longer each job runs.
        seed: Seed of what is random.

    Examples:
        farm admin trace scale mine -o double --arrivals 2
        farm admin trace scale mine -o faster --service-times 0.8
        farm admin trace scale mine -o half --arrivals 0.5 --seed 3
    """
    _check_new(out)
    made = scaled(_read(path), arrivals=arrivals, service_times=service_times, seed=seed)
    _write(out, made, quiet=quiet)


@trace.command()
def merge(
    paths: Annotated[list[Path], typer.Argument(metavar="BUNDLES")],
    out: Out,
    apart: Annotated[bool, typer.Option("--apart")] = False,
    align: Annotated[bool, typer.Option("--align")] = False,
    quiet: Quiet = False,
) -> None:
    """Merge several bundles into one, by clock time.

    Args:
        paths: Bundles of one farm, whose records may overlap: what is in two of them counts once.
            Or bundles of several farms, whose jobs and runners are kept apart by the bundle's name;
            those with the same labels are one platform.
        apart: They are different farms. Default: if their sources differ, or an id stands for
            two different jobs.
        align: Move them so that all begin when the first one did, as different farms.

    Examples:
        farm admin trace merge may june -o both            what is in both counts once
        farm admin trace merge here there -o both --apart  two farms
        farm admin trace merge here there -o both --align
    """
    _check_new(out)
    bundles = [_read(path) for path in paths]
    names = [path.resolve().name for path in paths]
    _write(out, merged(bundles, names, apart=apart, align=align), quiet=quiet)


@trace.command()
def fit(
    path: BundlePath,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")],
    quiet: Quiet = False,
) -> None:
    """Write a synthetic workload like a bundle: rates by hour of the week, sizes by job name.

    It is the section workload of a scenario, which may have the file under its key extends.

    Args:
        out: A new YAML file.

    Examples:
        farm admin trace fit mine -o load.yaml
        farm admin trace fit week -o week.yaml --quiet
        farm admin trace fit double -o double.yaml
    """
    _check_new(out)
    bundle = _read(path)
    text = workload_text(bundle, path.resolve().name)
    write_document(out, text)
    remark(f"{out}: written; a scenario has it by extends: {out.name}", quiet=quiet)


def _read(path: Path) -> Bundle:
    with reading_progress() as on_read:
        return read_bundle(path, on_read)


def _check_new(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file or directory")


def _write(out: Path, bundle: Bundle, *, quiet: bool) -> None:
    with progress("writing", silent=quiet):
        write_bundle(out, bundle)
    written = f"{out}: {many(len(bundle.attempts), 'attempt')}; farm admin trace show {out}"
    remark(*bundle.manifest.remarks, written, quiet=quiet)
