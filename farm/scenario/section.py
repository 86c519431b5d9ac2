"""The base of all sections of our files: a strict, frozen mapping of known keys.

Their docstrings describe the keys in the JSON Schema. Modules of sections do not postpone the
evaluation of annotations: pydantic needs the annotations when a class is made, and compiling each
of them from its text takes a fifth of the time that importing the sections takes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, ClassVar, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializationInfo,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import (
    no_info_plain_validator_function,
    plain_serializer_function_ser_schema,
)

from farm.core.errors import nearest
from farm.scenario.file.line_marks import MarkedDict

_IN_A_SECTION = ContextVar("_IN_A_SECTION", default=False)
"""Whether a section is being built: those in it are built when a file has their key."""


class Mapped(BaseModel):
    """A mapping in a file. Unknown keys are refused, with a suggestion."""

    model_config = ConfigDict(
        # a section is built with its scenario, not separately: defaults are made by model_construct
        extra="forbid",
        frozen=True,
        defer_build=True,
        regex_engine="python-re",
    )

    #: True: unknown keys are kept, as options of an algorithm
    takes_free_keys: ClassVar[bool] = False
    #: exactly one of these keys is required
    one_of: ClassVar[tuple[str, ...]] = ()
    #: a plain value of one of these types (not a boolean) is short for this key
    short_for: ClassVar[tuple[str, tuple[type, ...]] | None] = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return what pydantic needs to build the section, or to build it later.

        A scenario has some forty kinds of sections, of which most files use ten.
        """
        if _IN_A_SECTION.get():
            return no_info_plain_validator_function(
                cls.model_validate,
                # by this name a JSON Schema has it among its definitions, once
                ref=f"{cls.__module__}.{cls.__qualname__}:{id(cls)}",
                serialization=plain_serializer_function_ser_schema(_dumped, info_arg=True),
            )
        token = _IN_A_SECTION.set(True)
        try:
            return handler(source)
        finally:
            _IN_A_SECTION.reset(token)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the section, for which it is built now if it was not."""
        if core_schema["type"] == "function-plain":
            cls.model_rebuild()
            core_schema = cls.__pydantic_core_schema__
        return handler(core_schema)

    @model_validator(mode="wrap")
    @classmethod
    def _known_keys(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Build the section: from its short form, without removed keys, with known keys only."""
        data = cls._long_form(data)
        if isinstance(data, MarkedDict):
            data = cls._without_removed(data)
        if not isinstance(data, Mapping) or cls.takes_free_keys:
            return handler(data)
        known = {key: value for key, value in data.items() if key in cls.model_fields}
        if len(known) == len(data):
            return handler(data)
        problems = [
            InitErrorDetails(type=unknown_key(key, [*cls.model_fields], cls, known), input=key)
            for key in data
            if key not in known
        ]
        # all that is wrong with the section is shown at once
        try:
            handler(known)
        except ValidationError as error:
            problems += map(_as_given, filter(_is_of_its_own, error.errors()))
        raise ValidationError.from_exception_data(cls.__name__, problems)

    @classmethod
    def _long_form(cls, data: object) -> object:
        """Return the mapping for which a plain value is short; what is no short form as it is."""
        if cls.short_for is None:
            return data
        key, types = cls.short_for
        is_plain = isinstance(data, types) and (bool in types or not isinstance(data, bool))
        return {key: data} if is_plain else data

    @classmethod
    def _without_removed(cls, data: MarkedDict) -> MarkedDict:
        """Return a section without the optional keys that ``--set key=null`` removes.

        Only those that cannot be null: for the others null says what they are by default, also
        where a preset says otherwise.
        """
        fields = cls.model_fields
        removed = {
            key
            for key, value in data.items()
            if value is None
            and data.marks.get(key, "").startswith("--set ")
            and key in fields
            and not fields[key].is_required()
            and fields[key].default is not None
        }
        if not removed:
            return data
        remaining = MarkedDict()
        remaining.update((key, value) for key, value in data.items() if key not in removed)
        remaining.marks.update(data.marks)
        return remaining

    @model_validator(mode="after")
    def _one_given(self) -> Self:
        if self.one_of:
            self.only_one_of(*self.one_of)
        return self

    def only_one_of(self, *keys: str) -> str:
        """Return the one of these keys that is given; ValueError if none or several are."""
        given = [key for key in keys if getattr(self, key) is not None]
        if len(given) == 1:
            return given[0]
        found = f"{' and '.join(given)} together" if given else "none of them"
        hint = f" ({given[0]}: null takes it away)" if given else ""
        raise ValueError(f"found {found}; allowed: exactly one of {', '.join(keys)}{hint}")


def _dumped(section: BaseModel, info: SerializationInfo) -> dict[str, Any]:
    return section.model_dump(mode=info.mode, exclude_none=info.exclude_none)


class Section(Mapped):
    """A mapping of the scenario file."""


def _is_of_its_own(problem: ErrorDetails) -> bool:
    """Return whether a problem stands beside unknown keys, not because of them.

    An unknown key may have been meant for one that is missing, or that the section as a whole asks
    for. Of the latter pydantic complains here or later, by the sequence in which it built the
    sections.
    """
    depth = len(problem["loc"])
    return depth > 1 or (depth == 1 and problem["type"] != "missing")


def _as_given(problem: ErrorDetails) -> InitErrorDetails:
    """Return a problem that pydantic has reported in the form in which it is given to pydantic."""
    context = problem.get("ctx", {})
    error_type: str | PydanticCustomError = problem["type"]
    if error_type == "unknown_key":  # pydantic does not know this type
        error_type = PydanticCustomError("unknown_key", "{text}", context)
    return InitErrorDetails(
        type=error_type, loc=problem["loc"], input=problem["input"], ctx=context
    )


def unknown_key(
    key: object,
    known: list[str],
    section: type[Mapped] | None = None,
    given: Container[str] = (),
) -> PydanticCustomError:
    """Return the error for an unknown key; ``ctx`` has the key for the message.

    ``section``: where it was found; one of the sections in it may have the key, first of all one
    that is ``given`` there.
    """
    deeper = list(_deeper(section)) if section else []
    deeper.sort(key=lambda one: one[1].partition(".")[0] in given)  # the last of a name stays
    paths = dict(deeper)
    near = nearest(str(key), [*known, *paths])
    hint = f"did you mean {near if near in known else paths[near]}? " if near else ""
    text = f"unknown key; {hint}allowed: {', '.join(known)}"
    return PydanticCustomError("unknown_key", "{text}", {"text": text, "key": str(key)})


def _deeper(section: type[Mapped]) -> Iterator[tuple[str, str]]:
    """Yield the keys of the sections in this one, with their paths."""
    for name, field in section.model_fields.items():
        types = [field.annotation]
        for one in types:
            types += get_args(one)
        items = "NAME." if any(get_origin(one) is tuple for one in types) else ""
        for one in types:
            if isinstance(one, type) and issubclass(one, Mapped):
                yield from ((key, f"{name}.{items}{key}") for key in one.model_fields)


def or_plain(*types: str) -> Callable[[dict[str, Any]], None]:
    """Return a hook that allows a plain value in the JSON Schema of a section."""

    def extend(schema: dict[str, object]) -> None:
        inner = dict(schema)
        schema.clear()
        schema["anyOf"] = [inner, *({"type": kind} for kind in types)]

    return extend


def describe_keys(schema: dict[str, Any], base: type[BaseModel]) -> None:
    """Add descriptions of the fields of all models derived from ``base`` to a schema.

    It reads the sources, which takes a tenth of a second, so only when a schema is requested.
    """
    definitions = {schema["title"]: schema, **schema.get("$defs", {})}
    for model in derived(base):
        found = definitions.get(model.__name__, {})
        # a section with a short form has its keys one level deeper
        forms = (form.get("properties", {}) for form in (found, *found.get("anyOf", ())))
        properties = {name: one for form in forms for name, one in form.items()}
        parents = (parent for parent in reversed(model.__mro__) if issubclass(parent, base))
        texts = {name: text for one in parents for name, text in _docstrings(one).items()}
        for name in texts.keys() & properties.keys():
            properties[name]["description"] = texts[name]


def derived(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a section and all that are derived from it."""
    yield model
    for one in model.__subclasses__():
        yield from derived(one)


@cache
def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a class."""
    (node,) = ast.parse(dedent(inspect.getsource(model))).body
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(getattr(node, "body", ()))
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
