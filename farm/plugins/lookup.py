"""Things that a scenario names: the project's own, an installed entry point, or the user's own."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from farm.core.errors import ScenarioError, did_you_mean


def named(name: str, known: Mapping[str, object], where: str, group: str) -> Any:
    """Return what a name stands for.

    ``known`` holds the project's own things; ``module:attribute`` is imported (the working
    directory is looked in too); else an entry point of the group is loaded. Raises ScenarioError
    that names the scenario key ``where``, with the nearest name there is.
    """
    if name in known:
        return known[name]
    if ":" in name:
        return _imported(name, where)
    installed = {entry.name: entry for entry in entry_points(group=group)}
    if name in installed:
        try:
            return installed[name].load()
        except Exception as error:
            raise ScenarioError(f"{where}: entry point {name!r} failed: {error}") from error
    names = sorted({*known, *installed})
    allowed = f"{', '.join(names)}, or module:name" if names else "module:name"
    raise ScenarioError(f"{where}: unknown {name!r}; {did_you_mean(name, names)}allowed: {allowed}")


def name_of_part(part: object) -> str:
    """Return the name under which a scenario knows a part: of a function, where it stands."""
    if isinstance(part, str):
        return part
    named_part: Any = part if hasattr(part, "__qualname__") else type(part)
    return f"{named_part.__module__}:{named_part.__qualname__}"


def is_importable(part: object) -> bool:
    """Return whether another process finds a function by its name."""
    module, _, name = name_of_part(part).partition(":")
    if module == "__main__":
        return False
    try:
        return getattr(importlib.import_module(module), name, None) is part
    except ImportError:
        return False


def source_of(name: str, group: str) -> str:
    """Return the source of the module from which a name is imported, as this process loaded it.

    Empty for the project's own things, and where there is no source: the module cannot be loaded
    (``named`` reports why), or was not written in Python.
    """
    module_name = name.partition(":")[0] if ":" in name else _module_of(name, group)
    try:
        return _source(_loaded(module_name)) if module_name else ""
    except Exception:
        return ""


@lru_cache(maxsize=256)
def _module_of(name: str, group: str) -> str:
    """Return the module of an installed entry point; empty if there is none."""
    return next((entry.module for entry in entry_points(group=group, name=name)), "")


#: the sources of loaded modules; each with the module's spec, which reloading replaces
_sources: dict[str, tuple[object, str]] = {}


def _source(module: ModuleType) -> str:
    """Return what was in a module's file when it was loaded, not what it was changed to since."""
    known = _sources.get(module.__name__)
    if known is None or known[0] is not module.__spec__:
        try:
            source = inspect.getsource(module)
        except (OSError, TypeError):
            source = ""
        known = _sources[module.__name__] = module.__spec__, source
    return known[1]


def _loaded(module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = importlib.import_module(module_name)
    _source(module)
    return module


def checked_arguments(found: Callable[..., object], count: int, where: str, form: str) -> None:
    """Raise ScenarioError unless the function can be called with ``count`` arguments."""
    try:
        inspect.signature(found).bind(*range(count))
    except ValueError:
        return  # written in C: nothing is known of its arguments
    except TypeError as error:
        raise ScenarioError(f"{where}: {form} cannot be called so: {error}") from None


def _imported(name: str, where: str) -> object:
    module_name, _, attribute = name.partition(":")
    module_name = module_name.removesuffix(".py")
    if "/" in module_name:
        raise ScenarioError(
            f"{where}: found the path {name!r}; allowed: module:name, of a module in this folder, "
            "on PYTHONPATH, or installed"
        )
    try:
        found = getattr(_loaded(module_name), attribute)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise ScenarioError(f"{where}: cannot load {name!r}: {message}") from error
    if not callable(found):
        raise ScenarioError(f"{where}: {name!r} is a {type(found).__name__}, not a function")
    return found
