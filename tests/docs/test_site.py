"""The documentation builds as a self-contained site."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import DOCUMENTS, ROOT

#: one of them needs it, and none of the others is worth building the site once more
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it: a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    words = ["-q", "-W", "--keep-going", "-c", "docs", "-d", out / "doctrees", ".", out / "html"]
    done = subprocess.run(
        [Path(sys.executable).parent / "sphinx-build", *words], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return out / "html"


def test_every_page_is_there(site: Path):
    """No page of the clone is left out, and the folder opens with the first one."""
    pages = [ROOT / "index.md", *DOCUMENTS]
    wanted = [site / page.relative_to(ROOT).with_suffix(".html") for page in pages]
    assert [page for page in wanted if not page.exists()] == []


def test_no_page_loads_anything_from_elsewhere(site: Path):
    """Scripts, styles, fonts and pictures are part of the site; only links lead away."""
    loads = re.compile(r"""<(?!a\b)[^>]*\b(?:src|href)=["']?(?:https?:)?//|url\(["']?https?:""")
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > len(DOCUMENTS)
    assert [path for path in files if loads.search(path.read_text(encoding="utf-8"))] == []


def test_search_needs_no_server(site: Path, tmp_path: Path):
    """A page opened from a file finds the search term."""
    chromium = shutil.which("chromium") or pytest.skip("needs Chromium")
    page = f"{(site / 'search.html').as_uri()}?q=stickiness"
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    done = subprocess.run(
        [chromium, *words, "--virtual-time-budget=10000", "--dump-dom", page],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert 'href="docs/explanation/fair-share.html' in done.stdout.partition("search-results")[2]
