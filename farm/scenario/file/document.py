"""Scenario files as data with the line of each key (``line_marks``).

Values follow the core schema of YAML 1.2: ``yes``, ``on``, ``1:30`` and dates are text, ``1e9`` is
a number. Duplicate keys, tags, and values that refer to themselves are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from farm.core.errors import ScenarioError
from farm.scenario.file.line_marks import MarkedDict, MarkedList
from farm.whole_files import read_whole

MAX_VALUES = 1_000_000
"""The maximum number of values, which limits expansion by aliases."""

MAX_DEPTH = 100
"""The maximum number of values within each other."""


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the resolver rules of YAML 1.2."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # without a bound a second of processor time is spent before the interpreter's own is met
        if self._depth == MAX_DEPTH:
            raise RecursionError
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer; it quotes a text that by YAML 1.1 or 1.2 would be read as something else."""


#: halves of characters as JSON escapes them
_HALF = re.compile("[\ud800-\udfff]")
#: what is no printable character of YAML, or ends a line there
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

MAX_BYTES = 2_000_000
"""Of a scenario: some hundred thousand lines, which take seconds to read."""

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx", ".parquet", ".swf"})
"""Of files with records of jobs, which are easily given where a scenario is expected."""

FROM_RECORDS = "; to make a scenario of a table of jobs: farm init {}"

_TAG = "tag:yaml.org,2002:"
_RULES = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.nan|\.NaN|\.NAN", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
)
_Loader.yaml_implicit_resolvers = {}  # none of those of YAML 1.1
for _kind, _pattern, _first in _RULES:
    for _side in (_Loader, _Dumper):
        _side.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), list(_first))


def document_text(data: Mapping[str, object], *, compact: bool = False) -> str:
    """Return plain data as YAML that is read as the same data; ``compact``: with lists in lines."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        default_flow_style=None if compact else False,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    return text


def value_text(value: object) -> str:
    """Return a plain value as JSON that is read as the same value in YAML.

    In JSON a character beyond U+FFFF may be written as two halves, which YAML takes for two
    characters; and some that JSON allows as they are end a line in YAML.
    """
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _whole_characters(text: str) -> str:
    """Return a text with the halves put together in which JSON writes a character beyond U+FFFF.

    Raises ValueError for a half alone, which is no character.
    """
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def read_document(path: Path, *, hint: str = "") -> MarkedDict:
    """Return the mapping in a YAML file; ScenarioError names the file and line of an error.

    ``hint``: what else to say if there is no such file.
    """
    try:
        text = read_whole(path, MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file{hint}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None
    is_table = path.suffix.lower() in TABLE_SUFFIXES
    return parse_document(text, str(path), hint=FROM_RECORDS.format(path) if is_table else "")


def parse_document(text: str, source: str, *, hint: str = "") -> MarkedDict:
    """Return the mapping in a YAML text; ``source`` is its name in messages.

    ``hint``: what else to say if it is something else than a mapping.
    """
    value = parse_value(text, source)
    if not isinstance(value, MarkedDict):
        found = "nothing" if value is None else f"a {_kind_of(value)}"
        raise ScenarioError(f"{source}: found {found}; allowed: a mapping of keys to values{hint}")
    return value


def parse_value(text: str, source: str, *, lines: bool = True) -> object:
    """Return any YAML value, its mappings and lists marked with ``source:line``.

    Without ``lines`` they are marked with the source alone (which is a single line).
    """
    try:
        node = _Loader(text).get_single_node()
        return None if node is None else _Builder(source, lines).value(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and lines else ""
        raise ScenarioError(f"{source}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise ScenarioError(f"{source}: not valid YAML: {reason}") from None
    except RecursionError:
        raise ScenarioError(f"{source}: values are nested too deeply") from None
    except (ValueError, IndexError) as error:
        raise ScenarioError(f"{source}: not valid YAML: {error}") from None


class _Builder:
    """Converts YAML nodes to marked values."""

    def __init__(self, source: str, lines: bool) -> None:
        self._source = source
        self._lines = lines
        self._open: set[int] = set()
        self._made = 0

    def value(self, node: yaml.Node) -> object:
        self._made += 1
        if self._made > MAX_VALUES:
            raise ScenarioError(f"{self._mark(node)}: more than {MAX_VALUES} values")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise ScenarioError(f"{self._mark(node)}: a value that contains itself")
        if not node.tag.startswith(_TAG) or node.tag.removeprefix(_TAG) not in {"map", "seq"}:
            raise ScenarioError(f"{self._mark(node)}: found the tag {node.tag}; allowed: no tags")
        self._open.add(id(node))
        made = self._mapping(node) if isinstance(node, yaml.MappingNode) else self._list(node)
        self._open.discard(id(node))
        return made

    def _mark(self, node: yaml.Node) -> str:
        return f"{self._source}:{node.start_mark.line + 1}" if self._lines else self._source

    def _mapping(self, node: yaml.MappingNode) -> MarkedDict:
        made = MarkedDict()
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in made:
                first = made.marks[key]
                raise ScenarioError(f"{self._mark(key_node)}: key {key!r} was given at {first} too")
            made[key] = self.value(value_node)
            made.marks[key] = self._mark(key_node)
        return made

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ScenarioError(f"{self._mark(node)}: found a list or mapping as a key")
        return self._text(node)

    def _text(self, node: yaml.ScalarNode) -> str:
        try:
            return _whole_characters(str(node.value))
        except UnicodeDecodeError:
            raise ScenarioError(
                f"{self._mark(node)}: found {node.value!r:.60}; allowed: whole characters"
            ) from None

    def _list(self, node: yaml.Node) -> MarkedList:
        made = MarkedList()
        for item in node.value:
            made.append(self.value(item))
            made.marks.append(self._mark(item))
        return made

    def _scalar(self, node: yaml.ScalarNode) -> object:
        kind, text = node.tag.removeprefix(_TAG), self._text(node)
        try:
            if kind == "bool":
                return {"true": True, "false": False}[text.lower()]
            if kind == "int":
                return int(text)
            if kind == "float":
                return float(text.replace(".inf", "inf").replace(".nan", "nan").lower().lstrip())
        except (KeyError, ValueError):
            raise ScenarioError(f"{self._mark(node)}: found {text!r:.60} as {kind}") from None
        if kind == "null":
            return None
        if kind == "str":
            return text
        raise ScenarioError(f"{self._mark(node)}: found the tag {node.tag}; allowed: no tags")


def _kind_of(value: object) -> str:
    return {MarkedList: "list", str: "text", bool: "truth value"}.get(type(value), "number")
