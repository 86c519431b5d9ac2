"""``farm schema``: prints the schema of scenario files."""

from __future__ import annotations

import json

import typer

from farm.scenario import scenario_schema


def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors and checkers."""
    typer.echo(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))
