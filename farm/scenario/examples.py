"""The scenarios that come with the farm: found by name, wherever it is installed."""

from __future__ import annotations

from pathlib import Path

from farm.core.errors import ScenarioError, did_you_mean

_PACKAGE = Path(__file__).parents[1]
#: in an installed package; in a clone, where the files are kept for readers
_FOLDERS = (_PACKAGE / "examples", _PACKAGE.parent / "examples")


def example_files() -> dict[str, Path]:
    """Return the packaged examples by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def examples() -> dict[str, str]:
    """Return the packaged examples: what each is about, by the name that ``simulate`` takes.

    >>> farm.examples()["mm1"]
    'M/M/1: one builder, load 0.8'
    """
    return {name: about(path) for name, path in example_files().items()}


def find_scenario(path: str | Path) -> Path:
    """Return the file that is meant: this one, or else the example of this name.

    Raises ScenarioError for a name (no suffix, no folder) that is neither, and for no name at all.
    """
    try:
        path = Path(path)
    except TypeError:
        raise ScenarioError(
            f"scenario: found {path!r:.60}; allowed: a file, the name of an example, or a mapping"
        ) from None
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    known = example_files()
    if path.name not in known:
        hint = did_you_mean(path.name, known)
        raise ScenarioError(
            f"{path}: no such file, and no example of this name; {hint}examples: {', '.join(known)}"
        )
    return known[path.name]


def about(path: Path) -> str:
    """Return the first sentence of the comment that an example begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    words = []
    for line in lines:
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# "))
    text = " ".join(words)
    return text.partition(". ")[0].rstrip(".") if text else ""
