"""What pages say of commands, keys, options and metrics, from the code that has them.

A page of the repository has compact tables between ``<!-- generated: WHAT -->`` and
``<!-- end -->``; ``make pages`` renews them. The site has the whole text: the meaning of each key
in place of its first clause, and at ``<!-- site: WHAT -->`` each command's ``--help``, the
docstrings of the algorithms, every metric.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import typer.main

from farm.cli.main import ADMIN, COMMANDS, app, commands_in
from farm.metrics import catalogue
from farm.scenario import scenario_schema
from farm.units import format_time
from provisioner.algorithms.registry import ALGORITHMS
from provisioner.algorithms.sizing import PositiveSeconds, Seconds

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"(<!-- generated: (.+?) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
SITE = re.compile(r"<!-- site: (.+?) -->")
#: sections with a table, or a place in the text, of their own
APART = {"Scheduling", "Estimates", "Live", "Distribution", "OptionsByTime"}
METRICS = {
    "Jobs": catalogue.JOBS,
    "Builders": catalogue.BUILDERS,
    "Fairness": catalogue.FAIRNESS,
    "Scheduler": catalogue.SCHEDULER,
    "Redis": catalogue.REDIS,
    "Provisioner": catalogue.PROVISIONER,
    "Builder hosts": catalogue.HOST,
}


def table(*rows: tuple[str, ...]) -> str:
    """Return a table; the first row is its head."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def commands() -> str:
    """Return the commands in view, by the headings of ``farm --help`` and ``farm admin --help``."""
    rows = [
        (heading, ", ".join(f"`{words} {name}`" for name in names.split()))
        for words, of in (("farm", COMMANDS), ("farm admin", ADMIN))
        for heading, names in of.items()
    ]
    return table(("of", "commands"), *rows)


def helps() -> str:
    """Return the whole help of each command."""
    parts = []
    for words, command in commands_in(typer.main.get_command(app)):
        context = typer.Context(command, info_name=words, terminal_width=90)
        parts.append(f"### {words}\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts)


class Keys:
    """The keys of a scenario's sections, from ``farm init --schema``."""

    def __init__(self) -> None:
        schema = scenario_schema()
        self._sections = schema["$defs"] | {"Scenario": schema}

    def table(self, wanted: str, *, whole: bool = False) -> str:
        """Return the keys of a section: ``A``, ``A and B`` (common ones), ``A without B``.

        In short each has the first clause of its meaning, and a section within it only its keys.
        """
        one, how, other = (*wanted.split(" "), "", "")[:3]
        rows = list(self._rows(one, whole=whole))
        others = set(self._rows(other, whole=whole)) if how else set()
        kept = [row for row in rows if not how or (row in others) == (how == "and")]
        return table(("key: default", "meaning"), *kept)

    def _rows(
        self, section: str, before: str = "", listed: dict[str, str] | None = None, *, whole: bool
    ) -> Iterator[tuple[str, str]]:
        listed = {} if listed is None else listed
        known = self._sections[section]
        forms = (form.get("properties", {}) for form in (known, *known.get("anyOf", ())))
        for name, key in ((name, key) for form in forms for name, key in form.items()):
            inner = referred(key)
            inner = None if inner in APART else inner
            first = listed.setdefault(inner, name) if inner else name
            within = list(self._rows(inner, whole=True)) if inner and first == name else []
            if within and whole:
                yield from self._rows(inner or "", f"{before}{name}.", listed, whole=whole)
                continue
            given = default(key)
            required = ", required" if name in known.get("required", ()) else ""
            meaning = " ".join(key.get("description", "").split())
            words = choices(key) if first == name else f" With the keys of `{first}`."
            if within:
                words = f" Its keys: {', '.join(one.partition(',')[0] for one, _ in within)}."
            yield (
                f"`{before}{name}{given and ': ' + given}`{required}",
                (meaning if whole else brief(meaning)) + words,
            )


@cache
def keys() -> Keys:
    """Return the keys: reading the schema's sources takes a while."""
    return Keys()


def referred(key: dict[str, Any]) -> str | None:
    """Return the section that is the value of a key, if it is one."""
    forms = [form for form in key.get("anyOf", [key]) if form.get("type") != "null"]
    reference = forms[0].get("$ref", "") if len(forms) == 1 else ""
    return reference.rpartition("/")[2] or None


def brief(meaning: str) -> str:
    """Return the first clause of a text."""
    return re.split(r"(?<=[^.…])[.;](?: |$)", meaning)[0] + "."


def choices(key: dict[str, Any]) -> str:
    """Return the allowed words of a key, if its description does not have them."""
    words = [word for form in (key, *key.get("anyOf", ())) for word in form.get("enum", ())]
    named = key.get("description", "")
    return "" if all(f"`{word}" in named for word in words) else f" One of `{' '.join(words)}`."


def default(key: dict[str, Any]) -> str:
    """Return the default of a key as a scenario has it; empty for none and for a section."""
    value = key.get("default")
    if value is None or isinstance(value, dict) or value == "":
        return ""
    if isinstance(value, float) and "ms|s|m" in str(key.get("anyOf")):
        return format_time(value)
    return msgspec.json.encode(value).decode().strip('"').removesuffix(".0")


def algorithms() -> str:
    """Return the algorithms, each with its rule in a line and its options."""
    rows = [
        (
            f"[{name}](../../provisioner/algorithms/{name.replace('-', '_')}.py)",
            cleandoc(kind.__doc__ or "").partition("\n")[0].replace("``", "`"),
            ", ".join(options(kind)),
        )
        for name, kind in ALGORITHMS.items()
    ]
    return table(("algorithm", "rule", "options"), *rows)


def options(kind: type[Any]) -> Iterator[str]:
    """Yield an algorithm's own options with their defaults."""
    types = typing.get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        value = field.default
        if field.name in ("min", "max", "first_plan"):
            continue
        if types[field.name] in (Seconds, PositiveSeconds) and isinstance(value, float):
            value = format_time(value)
        if value in (msgspec.NODEFAULT, None):
            yield f"`{field.name}`" + ("" if value is None else " required")
        else:
            yield f"`{field.name}` {default({'default': value})}"


def docstrings() -> str:
    """Return the whole description of each algorithm."""
    return "## Rules and options\n\n" + "\n\n".join(
        f"### {name}\n\n```text\n{cleandoc(kind.__doc__ or '').replace('``', '`')}\n```"
        for name, kind in ALGORITHMS.items()
    )


def metrics() -> str:
    """Return the names of the metrics, by what they are of."""
    rows = [(group, ", ".join(f"`{name}`" for name in known)) for group, known in METRICS.items()]
    return table(("of", "metrics"), *rows)


def metrics_in_full() -> str:
    """Return type, labels and meaning of each metric."""
    return "\n\n".join(
        f"### {group}\n\n"
        + table(
            ("metric", "type", "labels", "meaning"),
            *((f"`{m.name}`", m.kind, ", ".join(m.labels), m.help) for m in known.values()),
        )
        for group, known in METRICS.items()
    )


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "algorithms": algorithms,
    "metrics": metrics,
}
IN_FULL = {"commands": helps, "algorithms": docstrings, "metrics": metrics_in_full}


def generated(what: str, *, whole: bool = False) -> str:
    """Return a table by its mark, as the repository has it or as the site has it."""
    kind, _, section = what.partition(" ")
    return keys().table(section, whole=whole) if kind == "keys" else GENERATED[what]()


def renewed(page: str) -> str:
    """Return a page with its tables as they are today."""
    return MARKED.sub(lambda found: f"{found[1]}{generated(found[2])}\n\n{found[3]}", page)


def completed(page: str) -> str:
    """Return a page as the site has it."""
    page = MARKED.sub(lambda found: generated(found[2], whole=True), page)
    return SITE.sub(lambda found: IN_FULL[found[1]](), page)


def main() -> None:
    """Renew the tables of all pages."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        if (new := renewed(old)) != old:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
