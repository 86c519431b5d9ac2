"""The end of a run: its summary, suggestions for what to try next, the exit code."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import typer

from farm.app.recorded.result import Result
from farm.results.summary.summary import Summary
from farm.results.summary.table import render_summary
from farm.terminal.output import note, print_json


def show(result: Result, *, as_json: bool) -> None:
    """Print the summary as a table or as JSON; warnings on standard error."""
    summary = result.kept.summary
    if as_json:
        print_json(summary, pretty=True)
    else:
        note(render_summary(summary))
    for warning in summary.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for remark in summary.remarks:
        typer.echo(f"remark: {remark}", err=True)


def suggest(*lines: str) -> None:
    """Suggest what to try next, on standard error, apart from the output."""
    for line in lines:
        note(line, err=True)


def this_command() -> str:
    """Return the command as the user typed it, such as ``.venv/bin/farm``."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "farm" and shutil.which("farm") is None else "farm"


def exit_code(summary: Summary) -> int:
    """Return 1 if jobs were lost or the user's functions failed, else 0."""
    return 0 if summary.ended_well else 1
