"""What commands set in the environment."""

from __future__ import annotations

import os

import pytest

from farm.terminal.settings import use_no_plugins_of_pydantic


@pytest.mark.parametrize(("given", "used"), [(None, "__all__"), ("", "")])
def test_pydantic_looks_for_no_plugins_unless_the_environment_says_which(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
):
    """Every command would read the entry points of all installed packages."""
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", given or "")
    if given is None:
        monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS")

    use_no_plugins_of_pydantic()

    assert os.environ["PYDANTIC_DISABLE_PLUGINS"] == used
