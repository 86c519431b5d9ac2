"""The documentation as a site (`make site`): the pages as they are, and the Python reference."""

import posixpath
import re
import shutil
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

project = "Build farm emulator"
author = "The build farm emulator's authors"
version = release = metadata.version("build-farm-emulator")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# the pages link to files all over the clone: they are read from its root
root_doc = "README"
include_patterns = ["*.md", "docs/**", "farm_*/docs/**", "[a-z]*/README.md"]
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = html_css_files = ["site.css"]
html_title = project
html_show_copyright = False
html_copy_source = html_show_sourcelink = False
# a page opened from a file may not load others, as a summary beside a search result would
html_show_search_summary = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 90

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


def in_full(_app: Any, _page: str, source: list[str]) -> None:
    """Complete a page by what the repository has only in short."""
    source[0] = import_module("docs.generated").completed(source[0])


def with_contents(_app: Any, page: str, source: list[str]) -> None:
    """Give the first page a table of contents: that of docs/README.md, in its order."""
    if page == root_doc:
        index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
        for room in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
            pages = re.findall(r"^- \[[^]]*\]\(([^)]+)\.md\)", room, re.MULTILINE)
            source[0] += contents(
                room.partition("\n")[0], [posixpath.normpath(f"docs/{page}") for page in pages]
            )
        others = [path.stem for path in ROOT.glob("*.md") if path.stem != root_doc]
        more = ["docs/README", "examples/README", "benchmarks/README", *sorted(others)]
        source[0] += contents("The project", more)


def contents(caption: str, pages: list[str]) -> str:
    """Return the directive that lists pages in the side bar."""
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n{chr(10).join(pages)}\n```\n"


def with_index(app: Any, problem: Exception | None) -> None:
    """Let the site's folder open with its first page."""
    if problem is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Register the functions above."""
    app.connect("source-read", in_full)
    app.connect("source-read", with_contents)
    app.connect("build-finished", with_index)
