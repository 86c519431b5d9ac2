"""The packaged example scenarios, found by name."""

from __future__ import annotations

from pathlib import Path

from farm.core.errors import ScenarioError, did_you_mean
from farm.whole_files import STDIN

_PACKAGE = Path(__file__).parents[1]
#: in an installed package, and in a clone of the repository
_FOLDERS = (_PACKAGE / "examples", _PACKAGE.parent / "examples")


def example_files() -> dict[str, Path]:
    """Return the packaged examples by name."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def examples() -> dict[str, str]:
    """Return the packaged examples: a description of each, by the name for ``simulate``.

    >>> farm.examples()["mm1"]
    'M/M/1: one builder, load 0.8'
    """
    return {name: about(path) for name, path in example_files().items()}


def find_scenario(path: str | Path) -> Path:
    """Return the path of this file, or else of the example of this name.

    Of ``-``, standard input, it is that. Raises ScenarioError for a name (no suffix, no folder)
    that is neither, for an empty name and for a folder.
    """
    try:
        path = Path(path)
    except TypeError:
        raise ScenarioError(
            f"scenario: found {path!r:.60}; allowed: a file, the name of an example, or a mapping"
        ) from None
    if path.is_dir() and path.name:
        of_run = path / "scenario.yaml"
        hint = f"of a bundle farm twin {path} -o mine.yaml makes one"
        if of_run.is_file():
            hint = f"that of this run is {of_run}"
        raise ScenarioError(
            f"{path}: cannot be read: is a folder; allowed: a scenario file ({hint})"
        )
    other = {".yml": ".yaml", ".yaml": ".yml"}.get(path.suffix)
    if other and not path.exists() and (near := path.with_suffix(other)).is_file():
        raise ScenarioError(f"{path}: no such file; did you mean {near}?")
    if path == STDIN or path.exists() or path.suffix or len(path.parts) != 1:
        return path
    known = example_files()
    if path.name not in known:
        hint = did_you_mean(path.name, known)
        raise ScenarioError(
            f"{path}: no such file, and no example of this name; {hint}examples: {', '.join(known)}"
        )
    return known[path.name]


def about(path: Path) -> str:
    """Return the first sentence of the comment at the beginning of an example.

    And what it needs, which another sentence says (``Needs …``).
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    words = []
    for line in lines:
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# "))
    text = " ".join(words)
    first, *others = text.split(". ")
    needs = next((one for one in others if one.startswith("Needs ")), "")
    return first.rstrip(".") + (f"; {needs[0].lower()}{needs[1:].rstrip('.')}" if needs else "")
