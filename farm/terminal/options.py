"""Options that several commands share."""

from __future__ import annotations

import json
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from farm.core.errors import InputError
from farm.terminal.settings import with_password
from farm.units import format_time, parse_time

DEFAULT_DIR = Path(".farm")

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario file (YAML), or the name of an example (farm examples).",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the scenario, such as scheduling.policy=sjf or "
        "pools.linux.builders=+3; repeatable.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="RUN",
        help="Keep the run in this new directory. Default: runs/NAME-N, the next free number.",
    ),
]
NoSave = Annotated[bool, typer.Option("--no-save", help="Do not keep the run.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]

Speed = Annotated[
    float | None,
    typer.Option("--speed", help="Farm seconds per real second. Default: the scenario's."),
]

LearnFrom = Annotated[
    Path | None,
    typer.Option(
        "--learn-from",
        metavar="RUN",
        help="A finished run, or exported statistics, from which run times are learned first.",
    ),
]


def server_option(about: str, envvar: str | None = "FARM_REDIS_URL") -> object:
    """Return the option ``--redis``, whose URL gets the environment's password if it has none."""

    def complete(url: str | None) -> str | None:
        return with_password(url)

    return typer.Option("--redis", metavar="URL", envvar=envvar, help=about, callback=complete)


Redis = Annotated[
    str | None,
    server_option("The farm's server. Default: that of the farm started by farm up in --dir."),
]
Dir = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", envvar="FARM_DIR", help="Where farm up keeps its state."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result, no progress.")]
Log = Annotated[
    bool,
    typer.Option("--log", help="Print each event as it happens, one per line, on standard error."),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", "-o", help="Draw the result to this file (.svg or .html).")
]
Relevant = Annotated[
    str,
    typer.Option(
        metavar="SHARE", help="The smallest relevant difference, as a share of the baseline."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="OURS=THEIRS",
        help="The farm's name and the table's, such as submitted=created_at; known names: id "
        "submitted started finished duration platform kind …, others are attributes; repeatable.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="Whose records these are: github gitlab buildkite taskcluster slurm reapi jenkins "
        "bazel kueue csv jsonl. Default: recognised by the first one.",
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Of times without one, and of hours that are shown, such as Europe/Berlin. "
        "Default: UTC, and times without a zone are refused.",
    ),
]
Slots = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        metavar="SLOTS",
        help="That the farm is said to have: records of more at once are not believed.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        envvar="FARM_METRICS_PORT",
        help="Serve Prometheus metrics on this port (0: any free one). Default: no metrics.",
    ),
]
MetricsAddress = Annotated[
    str, typer.Option(envvar="FARM_METRICS_ADDRESS", help="Address on which metrics are served.")
]
MetricsTargets = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="FARM_METRICS_TARGETS",
        help="Serve the metrics of builder hosts too, on free ports, and write the targets to "
        "files in DIR, for Prometheus's file_sd_configs.",
    ),
]


def learning(source: Path | None) -> list[str]:
    """Return the override for ``--learn-from``."""
    return [] if source is None else [f"estimates.learn_from={json.dumps(str(source.absolute()))}"]


def speed_set(speed: float | None) -> list[str]:
    """Return the override for ``--speed``; raises InputError."""
    if speed is None:
        return []
    if not 0 < speed < float("inf"):
        raise InputError(f"--speed: found {speed:g}; allowed: a number above 0")
    return [f"live.speed={speed}"]


def seconds_of(text: str, option: str, *, least: float = 1e-3) -> float:
    """Parse a span such as ``250ms`` or ``5m`` into seconds; raises InputError."""
    try:
        seconds = parse_time(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    if seconds < least:
        raise InputError(f"{option}: found {text}; allowed: {format_time(least)} or more")
    return seconds


def share_of(text: str) -> float:
    """Parse ``--relevant``, a share such as ``1%`` or ``0.01``; raises InputError."""
    try:
        number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(f"--relevant: found {text!r:.40}; allowed: a share, as 1% or 0.01")
    return share


def zone_of(text: str | None) -> tzinfo | None:
    """Return the zone that is named; raises InputError."""
    if text is None or text.upper() in ("UTC", "Z"):
        return None if text is None else UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"--zone: found {text!r:.60}; allowed: UTC, or a name as Europe/Berlin"
        ) from None


def columns_of(texts: list[str] | None) -> dict[str, str] | None:
    """Return the columns given by ``--column``, by part of the job; raises InputError."""
    columns: dict[str, str] = {}
    for text in texts or ():
        ours, _, theirs = text.partition("=")
        if not ours.strip() or not theirs.strip() or ours.strip() in columns:
            raise InputError(
                f"--column: found {text!r:.60}; allowed: OURS=THEIRS, each OURS once, as "
                "submitted=created_at"
            )
        columns[ours.strip()] = theirs.strip()
    return columns or None
