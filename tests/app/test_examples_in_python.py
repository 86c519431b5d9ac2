"""The examples of help(farm) and docs/tutorials/python.md do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import farm
import farm.testing
from tests.docs.documents import BLOCKS

LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples save runs in the working directory."""
    monkeypatch.chdir(tmp_path)


def marked(public: str) -> object:
    """Mark those with Celery or a server."""
    live = public in ("farm.run", "farm.ServerError")
    return pytest.param(public, marks=[pytest.mark.live] if live else [])


NAMES = [f"{room.__name__}.{name}" for room in (farm, farm.testing) for name in room.__all__]


def examples_of(public: str) -> list[doctest.DocTest]:
    """Return the examples that this name's documentation shows."""
    room, _, name = public.rpartition(".")
    documented = getattr(import_module(room), name) if room else farm
    shown = doctest.DocTestFinder().find(documented, public, globs={"farm": farm})
    return [test for test in shown if test.examples]


@pytest.mark.parametrize("public", ["farm", *NAMES])
def test_every_public_name_has_an_example(public: str):
    """A reader sees how it is used."""
    assert examples_of(public)


@pytest.mark.slow
@pytest.mark.parametrize("public", [marked(name) for name in ("farm", *NAMES)])
def test_the_examples_of_public_names_show_what_comes_out(public: str):
    """A reader who types one sees the output shown."""
    tests = examples_of(public)
    assert sum(doctest.DocTestRunner(optionflags=LENIENT).run(test).failed for test in tests) == 0


@pytest.mark.slow
def test_the_page_on_python():
    """Its blocks are one session, from the top to the bottom."""
    blocks = [b for b in BLOCKS if b.document.name == "python.md" and b.language == "pycon"]
    text = "\n".join(block.text for block in blocks)
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/tutorials/python.md", None, 0)
    failed, tried = doctest.DocTestRunner(optionflags=LENIENT).run(test)
    assert tried > 20
    assert not failed


def test_the_policy_that_contributing_shows():
    """The first change that a newcomer is shown works."""
    (block,) = [
        b for b in BLOCKS if b.document.name == "CONTRIBUTING.md" and b.language == "python"
    ]
    module: dict[str, Any] = {}
    exec(block.text, module)
    last_first = farm.simulate("quickstart", policy=module["key"]).summary
    assert last_first["jobs"]["lost"] == 0
    assert last_first["waiting_time_s"] != farm.simulate("quickstart").summary["waiting_time_s"]


def test_every_name_is_documented():
    """dir(farm) shows the names of its documentation, which mentions each."""
    assert set(farm.__all__) <= set(dir(farm))
    for name in farm.__all__:
        assert name in (farm.__doc__ or ""), name
    with pytest.raises(AttributeError):
        farm.nothing  # noqa: B018
