"""Options that are the fields of a record."""

from typing import Annotated, Any

import msgspec
import pytest
import typer
import typer.main

from farm.core.errors import InputError
from farm.terminal.command_help import with_docstring
from farm.terminal.field_options import Fields, with_fields


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A box.

    Attributes:
        apples: how many apples are
            in it; none is allowed.
        name: what it is called.
        labels: what is written on it; repeatable.
    """

    apples: Annotated[int, typer.Option("--fruit", min=0, envvar="BOX_APPLES")] = 1
    name: str | None = None
    labels: Annotated[dict[str, str], typer.Option("--label")] = {}
    secret: int = 7


def command(**own: Any) -> tuple[typer.Typer, list[Any]]:
    """Return a command with a box between two options, and the arguments of its calls."""
    calls: list[Any] = []
    app = typer.Typer()

    @app.command()
    @with_fields
    def pack(*, first: int = 0, box: Annotated[Box, Fields(**own)], last: int = 0) -> None:
        calls.append((first, box, last))

    return app, calls


def test_a_record_is_made_of_its_options(monkeypatch: pytest.MonkeyPatch):
    """What is not given is as in the record; a field that it does not explain is no option."""
    app, calls = command()
    app(["--fruit", "3", "--label", "a=1", "--label", "b=", "--last", "2"], standalone_mode=False)
    monkeypatch.setenv("BOX_APPLES", "5")
    app(["--name", "x"], standalone_mode=False)
    assert calls == [
        (0, Box(apples=3, labels={"a": "1", "b": ""}), 2),
        (0, Box(apples=5, name="x"), 0),
    ]
    with pytest.raises(Exception, match="No such option"):
        app(["--secret", "1"], standalone_mode=False)
    with pytest.raises(InputError, match="--label: found 'a'; allowed: KEY=VALUE"):
        app(["--label", "a"], standalone_mode=False)
    with pytest.raises(Exception, match="greater than or equal to 0"):
        app(["--fruit", "-1"], standalone_mode=False)


def test_the_docstring_of_the_record_explains_them():
    """A sentence or two each, at the place of the record; nothing is read in a source file."""
    params = typer.main.get_command(command()[0]).params
    assert [one.name for one in params][:5] == ["first", "apples", "name", "labels", "last"]
    assert [one.help for one in params[1:3]] == [
        "How many apples are in it; none is allowed.",
        "What it is called.",
    ]


def test_some_fields_with_a_prefix():
    """And with what their declaration does not say."""
    app, _ = command(names=("name",), prefix="of it: ", options={"name": typer.Option("--title")})
    _, name, last, *_ = typer.main.get_command(app).params
    assert (name.opts, name.help, last.name) == (["--title"], "of it: what it is called.", "last")


def test_the_docstring_of_the_command_explains_fields_of_another_record():
    """One that is no record of options, such as a job: its fields are explained for programs."""
    made = typer.main.get_command(command(names=("secret",))[0])
    with_docstring(made, "Pack.\n\nArgs:\n    secret: What is hidden.\n    first: The first.")
    assert [(one.name, one.help) for one in made.params][:2] == [
        ("first", "The first."),
        ("secret", "What is hidden."),
    ]
