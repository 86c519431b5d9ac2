"""Values of options that are taken without Typer's conversion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
import typer.main

from farm.terminal.error_messages import UsageError
from farm.terminal.option_values import take_plain_values

Number = Annotated[int, typer.Option(min=1, max=9)]
Size = Annotated[Literal["small", "large"], typer.Option()]
LINES = [
    [],
    ["a", "b/c", "--count", "3", "--size", "large", "--ratio", "2.5", "--flag", "--name", "x"],
    ["", "--count", "9", "--label", "a=1", "--label", "", "--out", "there/../x", "--name", ""],
    ["--count", "0"],
    ["--count", "10"],
    ["--count", " 7 "],
    ["--count", "7.0"],
    ["--count", "seven"],
    ["--count", "٣"],
    ["--size", "Large"],
    ["--size", "huge"],
    ["--ratio", "inf"],
    ["--ratio", "1e3"],
    ["--ratio", "x"],
    ["--out", "closed"],
]


def outcome(words: list[str], *, plain: bool) -> object:
    """Return the values of a command, or the message of the error."""
    values: dict[str, Any] = {}

    def run(
        files: Annotated[list[Path] | None, typer.Argument()] = None,
        count: Number = 2,
        size: Size = "small",
        ratio: float = 1.0,
        flag: bool = False,
        name: str | None = None,
        label: Annotated[list[str] | None, typer.Option()] = None,
        out: Path | None = None,
    ) -> None:
        values.update(locals())

    app = typer.Typer(add_completion=False)
    app.command()(run)
    command = typer.main.get_command(app)
    if plain:
        take_plain_values(command)
    try:
        command(words, standalone_mode=False)
    except UsageError as error:
        return str(error)
    values.pop("values", None)
    return {name: (type(value), value) for name, value in values.items()}


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_values_and_messages_are_those_of_typer(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A value that is taken at once is of the same type; one that is wrong is Typer's to refuse."""
    monkeypatch.chdir(tmp_path)
    Path("closed").write_text("")
    Path("closed").chmod(0)
    monkeypatch.setattr(os, "access", lambda path, _: str(path) != "closed")
    assert outcome(words, plain=True) == outcome(words, plain=False)
