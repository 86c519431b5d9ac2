"""The tables that pages have from the code are current, and the site has the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generated

from .documents import DOCUMENTS, ROOT

PAGES = [page for page in DOCUMENTS if generated.MARKED.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_tables_are_current(page: Path):
    """After changing a key, an option, a command or a metric run: make pages."""
    text = page.read_text(encoding="utf-8")
    assert generated.renewed(text) == text


@pytest.mark.parametrize("what", generated.IN_FULL)
def test_the_site_has_each_in_full(what: str):
    """No mark is left over, and nothing that the compact table names is missing."""
    whole = generated.completed(f"<!-- site: {what} -->")
    named = r"`farm ([\w-]+)`|`(farm_\w+)`|^\| \[([\w-]+)"
    names = re.findall(named, generated.generated(what), re.MULTILINE)
    assert names
    assert "<!--" not in whole
    assert [one for pair in names for one in pair if one not in whole] == []


def test_sections_within_sections_are_listed():
    """A key of a key is found as ``--set`` takes it, with its default."""
    found = generated.Keys().table("Pool", whole=True)
    assert "| `losses.rate` | " in found
    assert "| `platform.virtualized: true` | " in found
    assert "| `boot_time: 0s` | " in found
    assert "Its keys: `delay: 0s`, `wrong: 0`" in generated.Keys().table("Pool")


def test_the_repository_has_the_first_clause_and_the_site_all_of_it():
    """What no key means otherwise is left to ``farm init --schema`` and the site."""
    page = "<!-- generated: keys Live -->\n\n<!-- end -->"
    short, whole = generated.renewed(page), generated.completed(page)
    assert "Maximum number of waiting jobs: `farm submit` and the scheduler refuse more." in whole
    assert short.startswith("<!-- generated: keys Live -->\n| key")
    assert short.count("\n| `") == whole.count("\n| `")
    assert len(short.split()) < len(whole.split()) + 10


def test_common_keys_of_sources_are_listed_once():
    """What all sources know, and what only one knows, are two tables."""
    keys = generated.Keys()
    common, own = keys.table("Trace and Arrivals"), keys.table("Arrivals without Trace")
    assert "| `fails` | " in common
    assert "`daily_cycle`" not in common
    assert "`daily_cycle`" in own
    assert "| `fails` | " not in own
