"""The examples of help(farm) and docs/tutorials/python.md do what they say."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType

import pytest

import farm
import farm.app.api
import farm.app.result
from tests.docs.documents import BLOCKS

LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples keep runs where they are."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("module", [farm, farm.app.api, farm.app.result])
def test_docstrings(module: ModuleType):
    """Who types them sees what is shown."""
    failed, tried = doctest.testmod(module, extraglobs={"farm": farm}, optionflags=LENIENT)
    assert tried
    assert not failed


def test_the_page_on_python():
    """Its blocks are one session, from the top to the bottom."""
    blocks = [b for b in BLOCKS if b.document.name == "python.md" and b.language == "pycon"]
    text = "\n".join(block.text for block in blocks)
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/tutorials/python.md", None, 0)
    failed, tried = doctest.DocTestRunner(optionflags=LENIENT).run(test)
    assert tried > 20
    assert not failed


def test_every_name_is_documented():
    """dir(farm) shows the tour's names, and each of them explains itself."""
    assert set(farm.__all__) <= set(dir(farm))
    for name in farm.__all__:
        assert getattr(farm, name).__doc__, name
        assert name in (farm.__doc__ or ""), name
    with pytest.raises(AttributeError):
        farm.nothing  # noqa: B018
