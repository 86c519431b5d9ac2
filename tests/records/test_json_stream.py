"""JSON objects come out alike, however they were put together and wherever a piece ends."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.records import json_stream
from farm.records.json_stream import objects

SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=4)


def put_together(found: list[Any], how: str) -> str:
    """Return the objects as a program that fetches them might leave them."""
    texts = [json.dumps(one, indent=1 if how == "indented" else None) for one in found]
    if how == "array":
        return f"[{','.join(texts)}]"
    if how == "pages":
        return "".join(f"[[{text}]]" for text in texts)
    return {"lines": "\n", "records": "\x1e"}.get(how, "").join(texts)


@given(OBJECTS, st.sampled_from(["array", "pages", "lines", "indented", "records"]),
       st.integers(1, 40))  # fmt: skip
def test_any_packaging_is_the_same_sequence(found: list[Any], how: str, piece: int):
    """However few characters are read at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "PIECE", piece)
        assert list(objects(io.StringIO(put_together(found, how)))) == found


def test_a_large_object_comes_in_parts(monkeypatch: pytest.MonkeyPatch):
    """Each element of its arrays, beside the members before them."""
    monkeypatch.setattr(json_stream, "MAX_WHOLE", 100)
    monkeypatch.setattr(json_stream, "PIECE", 10)
    text = json.dumps({"name": "n", "size": 12345, "jobs": [{"id": n} for n in range(40)], "z": 1})
    found = list(objects(io.StringIO(text)))
    assert found == [{"name": "n", "size": 12345, "jobs": [{"id": n}]} for n in range(40)]


@given(OBJECTS.filter(bool), st.data())
def test_a_text_that_is_cut_is_refused(found: list[Any], data: st.DataObject):
    """It never is a shorter list."""
    text = put_together(found, "array")
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(ValueError, match=r"character [\d,]+: "):
        list(objects(io.StringIO(text[:cut])))


@pytest.mark.parametrize("text", ["]", "{} x", '{"a": NaN}', "[[{}]", "nul", "1"])
def test_what_is_no_sequence_of_objects_is_refused(text: str):
    """With the place where it stops to be one."""
    with pytest.raises(ValueError, match=r"character \d+: "):
        list(objects(io.StringIO(text)))
