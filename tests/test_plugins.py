"""Functions and classes that a scenario names: built in, installed, the user's; missing ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from farm.core.errors import ScenarioError
from farm.plugins import lookup as plugins
from farm.plugins.lookup import named

KNOWN = {"fifo": 1, "ljf": 2}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed entry points, one of which cannot be loaded."""

    def broken() -> Any:
        raise ImportError("no module named gone")

    points = [
        SimpleNamespace(name="mine", load=lambda: max),
        SimpleNamespace(name="torn", load=broken),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == "g" else [])


def test_an_installed_entry_point_is_found(installed: None) -> None:
    """A package may bring its own policy; built-in ones come first."""
    assert named("mine", KNOWN, "scheduling.policy", "g") is max
    assert named("ljf", KNOWN, "scheduling.policy", "g") == 2
    assert named("os.path:join", KNOWN, "scheduling.policy", "g")("a", "b") == "a/b"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torn", "entry point 'torn' failed: no module named gone"),
        ("lfj", r"unknown 'lfj'; did you mean ljf\? allowed: fifo, ljf, mine, torn, or module"),
        ("os.path:nothing", "cannot load 'os.path:nothing': AttributeError"),
        ("no.such.module:key", "cannot load 'no.such.module:key': ModuleNotFoundError"),
        ("../own/lifo.py:key", "found the path '../own/lifo.py:key'; allowed: module:name"),
        ("os:sep", "'os:sep' is a str, not a function"),
    ],
)
def test_an_unusable_name_is_one_message(installed: None, name: str, said: str) -> None:
    """The message names the key, what was found and what exists."""
    with pytest.raises(ScenarioError, match="^scheduling.policy: " + said):
        named(name, KNOWN, "scheduling.policy", "g")
