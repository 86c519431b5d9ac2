"""How a run is reported when it has ended: its summary, what to try next, the exit code."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import typer
from rich.console import Console

from farm.app.result import Result
from farm.results.summary.summary import Summary
from farm.results.summary.table import render_summary
from farm.terminal.output import note, print_json


def show(result: Result, *, as_json: bool) -> None:
    """Print the summary, for a person or for a machine; warnings on standard error."""
    summary = result.kept.summary
    if as_json:
        print_json(summary, pretty=True)
    else:
        Console().print(render_summary(summary))
    for warning in summary.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for remark in summary.remarks:
        typer.echo(f"remark: {remark}", err=True)


def suggest(*lines: str) -> None:
    """Say what to try next: on standard error, so that a reader of the output is not disturbed."""
    for line in lines:
        note(line, err=True)


def this_command() -> str:
    """Return what the user typed to reach us, to be typed again (``.venv/bin/farm``, say)."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "farm" and shutil.which("farm") is None else "farm"


def exit_code(summary: Summary) -> int:
    """Return 1 when jobs were lost, or the user's own functions failed: not a good end."""
    return 0 if summary.ended_well else 1
