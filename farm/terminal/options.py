"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Sequence
from datetime import tzinfo
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from farm.core.errors import InputError, ScenarioError
from farm.terminal.settings import with_password
from farm.units import format_time, parse_time

T = TypeVar("T")

DEFAULT_DIR = Path(".farm")

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        help="A scenario file (YAML; - for stdin), or the name of an example (farm examples).",
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
#: options that are short for --set, wherever it is taken
SHORT_FORMS = {"policy": "scheduling.policy", "seed": "seed"}
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
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
        help="A finished run, a bundle of records, or exported statistics: run times are learned "
        "from it first.",
    ),
]


def server_option(
    about: str, envvar: str | None = "FARM_REDIS_URL", *, hidden: bool = False
) -> object:
    """Return the option ``--redis``, whose URL gets the environment's password if it has none."""

    def complete(context: typer.Context, url: str | None) -> str | None:
        return with_password(_before_command(context, "redis", url) if envvar else url)

    return typer.Option(
        "--redis", metavar="URL", envvar=envvar, help=about, callback=complete, hidden=hidden
    )


def dir_option(*, hidden: bool) -> object:
    """Return the option ``--dir``."""

    def complete(context: typer.Context, folder: Path) -> Path:
        return Path(_before_command(context, "folder", folder))

    about = "Where farm up keeps its state."
    return typer.Option(
        "--dir", metavar="DIR", envvar="FARM_DIR", help=about, callback=complete, hidden=hidden
    )


def _before_command(context: typer.Context, name: str, value: T) -> T | str:
    """Return what stands before the command (``farm --redis URL jobs``), if nothing is after it."""
    outer = context.find_root()
    if outer is context or name not in outer.params or is_typed(context, name):
        return value
    return outer.params[name] if is_typed(outer, name) else value


def is_typed(context: Any, name: str) -> bool:
    """Return whether the command line has this option or argument."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


SERVER = "The farm's server. Default: that of the farm started by farm up in --dir."
#: of the commands for a live farm: out of sight, as they may stand before each of them
Redis = Annotated[str | None, server_option(SERVER, hidden=True)]
Dir = Annotated[Path, dir_option(hidden=True)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result, no progress.")]
Checks = Annotated[
    list[str] | None,
    typer.Option(
        "--check",
        metavar="OBJECTIVE",
        help="Exit with code 1 unless the run meets this, such as 'p95(waiting_time) < 5m', "
        "'p99(linux.waiting_time) < 1h' or 'utilization > 0.6'; repeatable.",
    ),
]
Log = Annotated[
    bool,
    typer.Option("--log", help="Print each event as it happens, one per line, on standard error."),
]
Plot = Annotated[
    Path | None, typer.Option("--plot", help="Draw the result to this file (.svg or .html).")
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
Workflows = Annotated[
    Path | None,
    typer.Option(
        "--workflows",
        metavar="DIR",
        help="Of github: the folder of the workflow files, or a clone; what jobs need, and their "
        "groups, are taken from them.",
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
    str,
    typer.Option(
        metavar="IP", envvar="FARM_METRICS_ADDRESS", help="Address on which metrics are served."
    ),
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


def with_short_forms(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with ``--set``, with ``--policy`` and ``--seed`` for these keys, too."""
    given = inspect.signature(command, eval_str=True).parameters
    short = {name: key for name, key in SHORT_FORMS.items() if name not in given}
    if "sets" not in given:
        return command

    @wraps(command)
    def run(**values: Any) -> None:
        found = {name: values.pop(name) for name in short}
        given = {name: value for name, value in found.items() if value is not None}
        sets = [f"{SHORT_FORMS[name]}={value}" for name, value in given.items()]
        try:
            command(**values | {"sets": [*sets, *(values["sets"] or ())]})
        except ScenarioError as error:
            for name, value in given.items():
                key = SHORT_FORMS[name]
                text = str(error).removeprefix(f"--set {key}={value}: ")
                if text.startswith(f"{key}: "):
                    raise ScenarioError(f"--{name}{text.removeprefix(key)}") from error
            raise

    shown = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in given.values()]
    place = 1 + [one.name for one in shown].index("sets")
    shown[place:place] = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(help=f"Short for --set {key}=…")],
        )
        for name, key in short.items()
    ]
    vars(run)["__signature__"] = Signature(shown)
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def as_typed(scenario: Path, sets: Sequence[str] | None) -> str:
    """Return a scenario, with its overrides, as another command takes it."""
    overrides = (word for text in sets or () for word in ("--set", text))
    return shlex.join([str(scenario), *overrides])


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
    if text is None:
        return None
    from farm.time_zones import zone_named  # noqa: PLC0415 - few commands name a zone

    try:
        return zone_named(text)
    except ValueError as error:
        raise InputError(f"--zone: {error}") from None


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
