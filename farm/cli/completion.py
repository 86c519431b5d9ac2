"""What a shell completes: scenarios, keys of one, runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from farm.core.errors import FarmError
from farm.terminal.settings import completed_words

Complete = Callable[[Any, Any, str], list[str]]
"""Returns the words that begin so, of a parameter in the context of a command."""


def scenarios(_: object, __: object, incomplete: str) -> list[str]:
    """Return names of examples, YAML files, and folders that may have some."""
    from farm.scenario.packaged_examples import example_files  # noqa: PLC0415 - commands start without it

    names = [name for name in example_files() if name.startswith(incomplete)]
    return names + _paths(incomplete, (".yaml", ".yml"))


def keys(_: object, __: object, incomplete: str) -> list[str]:
    """Return ``KEY=`` of each key of the scenario that is on the line, else of quickstart."""
    from farm.scenario import load_scenario  # noqa: PLC0415 - commands start without it

    with suppress(FarmError):
        found = _dotted(load_scenario(_scenario_on_the_line()).model_dump(mode="json"))
        return sorted(f"{key}=" for key in found if key.startswith(incomplete))
    return []


def _scenario_on_the_line() -> str:
    """Return the scenario that the words before name, which the shell gives as they are typed."""
    from farm.scenario.packaged_examples import example_files  # noqa: PLC0415 - as above

    words = completed_words()
    known = example_files()
    named = (word for word in words if word in known or Path(word).suffix in (".yaml", ".yml"))
    return next(named, "quickstart")


def runs(_: object, __: object, incomplete: str) -> list[str]:
    """Return the runs that are kept in ``runs``, and folders."""
    kept = (path for path in sorted(Path("runs").glob("*")) if (path / "meta.json").is_file())
    names = [str(path) for path in kept if str(path).startswith(incomplete)]
    return list(dict.fromkeys([*names, *_paths(incomplete, ())]))


#: by the name of a parameter
COMPLETES: dict[str, Complete] = {
    "scenario": scenarios,
    "name": scenarios,
    "sets": keys,
    "vary": keys,
    "run": runs,
    "runs": runs,
    "what": runs,
}


def with_completion(command: Any) -> Any:
    """Return a command whose parameters are completed."""
    for parameter in command.params:
        complete = COMPLETES.get(parameter.name)
        if complete is not None:
            parameter._custom_shell_complete = complete
    return command


def _paths(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    """Return files of these endings, and folders, that begin so."""
    before, _, stem = incomplete.rpartition("/")
    place = Path(before or ("/" if incomplete.startswith("/") else "."))
    if not place.is_dir():
        return []
    found = sorted(path for path in place.iterdir() if path.name.startswith(stem))
    folders = [f"{path}/" for path in found if path.is_dir()]
    return [str(path) for path in found if path.suffix in endings] + folders


def _dotted(value: object, before: str = "") -> Iterator[str]:
    """Yield the paths of all values; in a list by their names, else by their numbers."""
    if isinstance(value, dict):
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        items = [(str(one.get("name") or number), one) for number, one in enumerate(value)]
    else:
        yield before
        return
    for key, inner in items:
        yield from _dotted(inner, f"{before}.{key}" if before else key)
