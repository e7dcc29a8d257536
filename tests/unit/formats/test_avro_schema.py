"""A schema that lost fields is still one, and reads of the others what the whole one wrote."""

from __future__ import annotations

import io
import json
from itertools import count
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_one
from hypothesis import given
from hypothesis import strategies as st

from anabranch.formats import avro_schema

E = {"type": "enum", "name": "E", "symbols": ["X", "Y"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
R = {"type": "record", "name": "R", "fields": [{"name": "e", "type": E}, {"name": "n", "type": ["null", "int"]}]}


def record(*types: Any, **more: Any) -> dict[str, Any]:
    fields = [{"name": "abcdef"[n], "type": each} for n, each in enumerate(types)]
    return {"type": "record", "name": "Top", "fields": fields, **more}


def agrees(whole: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Check that values of the whole schema are read by what is left as by itself; gives what is left."""
    untouched = json.dumps(whole)
    left = avro_schema.cut(whole, names)
    assert json.dumps(whole) == untouched
    assert [each["name"] for each in left["fields"]] == [f["name"] for f in whole["fields"] if f["name"] in names]
    writer, reader = fastavro.parse_schema(whole), fastavro.parse_schema(left)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer, generate_one(writer))
    full: Any = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer, writer)
    found = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer, reader)
    assert repr(found) == repr({name: value for name, value in full.items() if name in names})
    return left


@pytest.mark.parametrize(
    ("whole", "names", "left"),
    [
        (record(E, "E"), "a", [{"name": "a", "type": E}]),
        (record(E, "int"), "b", [{"name": "b", "type": "int"}]),
        (record(E, "E"), "b", [{"name": "b", "type": {**E, "namespace": ""}}]),
        (record(FIXED, ["null", "F"]), "b", [{"name": "b", "type": ["null", {**FIXED, "namespace": ""}]}]),
        (
            record({"type": "array", "items": E}, {"type": "map", "values": "E"}, "E"),
            "bc",
            [{"name": "b", "type": {"type": "map", "values": {**E, "namespace": ""}}}, {"name": "c", "type": "E"}],
        ),
        (record(R, "E", "R"), "c", [{"name": "c", "type": {**R, "namespace": ""}}]),
        (
            record(R, "E", "R"),
            "bc",
            [
                {"name": "b", "type": {**E, "namespace": ""}},
                {"name": "c", "type": {**R, "namespace": "", "fields": [{"name": "e", "type": "E"}, R["fields"][1]]}},
            ],
        ),
        (record(E, "E", namespace="air"), "b", [{"name": "b", "type": {**E, "namespace": "air"}}]),
        (
            record({**R, "namespace": "sea"}, {"type": "array", "items": "sea.E"}, namespace="air"),
            "b",
            [{"name": "b", "type": {"type": "array", "items": {**E, "namespace": "sea"}}}],
        ),
        (
            record({**E, "name": "sea.E"}, E, "sea.E", "E", namespace="air"),
            "cd",
            [
                {"name": "c", "type": {**E, "namespace": "sea"}},
                {"name": "d", "type": {**E, "namespace": "air"}},
            ],
        ),
        (
            record({**R, "fields": [{"name": "next", "type": ["null", "R"]}]}, "R"),
            "b",
            [{"name": "b", "type": {**R, "namespace": "", "fields": [{"name": "next", "type": ["null", "R"]}]}}],
        ),
    ],
)
def test_a_definition_goes_to_the_first_that_refers_to_it(whole: Any, names: str, left: Any) -> None:
    found = agrees(whole, set(names))
    assert found["fields"] == left


def test_a_reference_may_be_an_object() -> None:
    """As Java's Avro reads it, not fastavro."""
    found = avro_schema.cut(record(E, {"type": "E", "doc": "again"}, "E"), {"b", "c"})
    assert [each["type"] for each in found["fields"]] == [{**E, "namespace": ""}, "E"]


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A record of records, enums and fixed values that refer to each other, in several namespaces."""
    known: list[str] = []
    numbers = count()

    def kind(space: str, depth: int) -> Any:
        forms = ["int", "enum", "fixed", "reference"] + ["record", "array", "map", "union"] * (depth < 3)
        form = draw(st.sampled_from(forms))
        if form == "int" or (form == "reference" and not known):
            return "int"
        if form == "reference":
            full = draw(st.sampled_from(known))
            near, _, name = full.rpartition(".")
            return name if near == space and draw(st.booleans()) else full
        if form in ("array", "map"):
            return {"type": form, {"array": "items", "map": "values"}[form]: kind(space, depth + 1)}
        if form == "union":
            inside = kind(space, depth + 1)
            return inside if isinstance(inside, list) else ["null", inside]
        named: dict[str, Any] = {"type": form, "name": f"N{next(numbers)}"}
        own = draw(st.sampled_from([None, "air", "sea.deep"]))
        if own is not None and draw(st.booleans()):
            named["name"] = f"{own}.{named['name']}"
        elif own is not None:
            named["namespace"] = own
        space = own or space
        if form == "record":
            named["fields"] = [{"name": f"f{n}", "type": kind(space, depth + 1)} for n in range(2)]
        known.append(f"{space}.{named['name'].rpartition('.')[2]}")  # not sooner: a value would have no end
        return named | ({"symbols": ["X", "Y"]} if form == "enum" else {"size": 1} if form == "fixed" else {})

    return record(*[kind("top", 0) for _ in range(5)], namespace="top")


@given(schemas(), st.sets(st.sampled_from("abcde"), min_size=1))
def test_what_is_left_reads_what_the_whole_wrote(whole: dict[str, Any], names: set[str]) -> None:
    left = agrees(whole, names)
    if names == set("abcde"):
        assert left == whole
