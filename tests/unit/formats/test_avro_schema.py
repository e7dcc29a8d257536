"""A schema that lost fields is still one, and reads of the others what the whole one wrote, and what two mean."""

from __future__ import annotations

import io
import json
import re
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


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
READ_AS_TEXT = {"type": "bytes", avro_schema.TEXT: True}


def decimal(precision: int, scale: int | None = None, kind: str = "bytes") -> dict[str, Any]:
    more = {} if scale is None else {"scale": scale}
    return logical(kind, "decimal", precision=precision, **more)


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        (MILLIS, MICROS, "the column 'a' was written as timestamp-millis, and is read as timestamp-micros"),
        ("int", MICROS, "was written as int, and is read as timestamp-micros"),
        (MILLIS, logical("long", "local-timestamp-millis"), "and is read as local-timestamp-millis"),
        (decimal(9, 2), decimal(9, 4), r"was written as decimal\(9,2\), and is read as decimal\(9,4\)"),
        (decimal(9, 2), decimal(8, 2), r"and is read as decimal\(8,2\)"),
        (decimal(9), decimal(9, 2), r"was written as decimal\(9,0\)"),
        ("string", decimal(9, 2), "was written as string, and is read as decimal"),
        (["null", MILLIS], ["null", MICROS], "the column 'a' was"),
        (MILLIS, ["null", MICROS], "the column 'a' was"),
        (["null", MILLIS], MICROS, "the column 'a' was"),
        (["null", "int"], ["null", MICROS], "the column 'a' was"),
        ({"type": MILLIS}, {"type": {"type": MICROS}}, "the column 'a' was"),
        (
            {"type": "array", "items": MILLIS},
            {"type": "array", "items": ["null", MICROS]},
            r"the column 'a\[\]' was",
        ),
        (
            {"type": "map", "values": MILLIS},
            {"type": "map", "values": MICROS},
            "the column 'a{}' was",
        ),
        (record(MILLIS, name="R"), record(MICROS, name="R"), r"the column 'a\.a' was"),
        (record(MILLIS, name="R"), ["null", record(MICROS, name="S")], r"the column 'a\.a' was"),
        (
            record(MILLIS, name="R"),
            ["null", record(MILLIS, name="S"), record(MICROS, name="R")],
            r"the column 'a\.a' was",
        ),
    ],
)
def test_a_number_that_would_be_read_with_another_meaning_is_named(written: Any, read: Any, said: str) -> None:
    found = avro_schema.difference(record(written), record(read))
    assert found is not None
    assert re.search(said, found)
    assert avro_schema.difference(record(written), record(written)) is None
    assert avro_schema.difference(record(read), record(read)) is None
    assert avro_schema.difference(record(written), record("int", name="Other")) is None
    assert avro_schema.difference(record(), record(read)) is None, "the field has its default"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (MILLIS, "long"),
        (decimal(9, 2), "bytes"),
        (decimal(9, 2), decimal(10, 2)),
        (decimal(9), decimal(9, 0)),
        ("int", "long"),
        ("long", ["null", "double"]),
        ("string", logical("string", "uuid")),
        (logical("int", "timestamp-millis"), "int"),
        ("long", logical("long", "date")),
        ("bytes", decimal(2, 3)),
        (MILLIS, ["null", MILLIS]),
        (MILLIS, ["null", "boolean"]),
        ("string", MICROS),
        ("Unknown", MICROS),
        (record(MILLIS, name="R"), ["null", record(MICROS, name="S"), record(MILLIS, name="R")]),
        (E, "string"),
    ],
)
def test_what_means_the_same_or_cannot_be_read_at_all_is_no_difference(written: Any, read: Any) -> None:
    assert avro_schema.difference(record(written), record(read)) is None


def test_fields_are_compared_by_name_or_alias() -> None:
    was = record(MILLIS, MICROS)
    swapped = {**was, "fields": [{"name": "b", "type": MICROS}, {"name": "a", "type": MILLIS}]}
    assert avro_schema.difference(was, swapped) is None
    renamed = {**was, "fields": [{"name": "at", "aliases": ["other", "a"], "type": MICROS}]}
    said = "the column 'at' was written as timestamp-millis, and is read as timestamp-micros"
    assert avro_schema.difference(was, renamed) == said


def test_types_that_are_defined_once_are_compared_wherever_they_are_used() -> None:
    def tree(time: Any) -> dict[str, Any]:
        return record(
            {"type": "fixed", "name": "Cents", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2},
            ["null", "air.Top"],
            {"type": "array", "items": "Cents"},
            ["null", "Top"],
            time,
            namespace="air",
        )

    assert avro_schema.difference(tree(MILLIS), tree(MILLIS)) is None
    assert avro_schema.difference(tree(MILLIS), tree(MICROS)) is not None
    fixed = {"type": "fixed", "name": "Cents", "size": 4}
    cents = {**fixed, "logicalType": "decimal", "precision": 5, "scale": 2}
    was, now = record(cents, "Cents"), record(fixed, name="Now")
    assert avro_schema.difference(was, now) is None
    now = record("int", {**cents, "scale": 3}, name="Now")
    assert avro_schema.difference(was, now) == (
        "the column 'b' was written as decimal(5,2), and is read as decimal(5,3)"
    )


@pytest.mark.parametrize(
    ("written", "read", "checked"),
    [
        ("long", MICROS, MICROS),
        ({"type": "long"}, ["null", MILLIS], MILLIS),
        ({"type": {"type": "long"}}, MILLIS, {"type": MILLIS}),
        (logical("long", "date"), MILLIS, MILLIS),
        ("int", logical("int", "date"), logical("int", "date")),
        ("bytes", decimal(9, 2), decimal(9, 2)),
        (["null", "long"], ["null", MILLIS], [{"type": "null"}, MILLIS]),
        ({"type": "array", "items": "long"}, {"type": "array", "items": MILLIS}, {"type": "array", "items": MILLIS}),
        (record("long", name="R"), record(MILLIS, name="R"), record(MILLIS, name="R")),
        ("bytes", "string", READ_AS_TEXT),
        (["null", "bytes", "string"], ["null", "string"], [{"type": "null"}, READ_AS_TEXT, {"type": "string"}]),
        (
            {"type": "array", "items": "bytes"},
            {"type": "array", "items": "string"},
            {"type": "array", "items": READ_AS_TEXT},
        ),
        (
            {"type": "map", "values": "bytes"},
            {"type": "map", "values": ["string"]},
            {"type": "map", "values": READ_AS_TEXT},
        ),
        (record("bytes", name="R"), record("string", name="R"), record(READ_AS_TEXT, name="R")),
        (decimal(9, 2), "string", {**decimal(9, 2), avro_schema.TEXT: True}),
        ("bytes", ["bytes", "string"], {"type": "bytes"}),
        ("string", "bytes", {"type": "string"}),
        (MILLIS, "long", MILLIS),
        ("long", "long", {"type": "long"}),
        ("int", "long", {"type": "int"}),
    ],
)
def test_the_limits_of_the_reader_s_types_apply(written: Any, read: Any, checked: Any) -> None:
    was, now = record(written, "long"), record(read, "long")
    before = json.dumps(was)
    assert avro_schema.difference(was, now) is None
    assert avro_schema.annotated(was, now) == record(checked, {"type": "long"})
    assert json.dumps(was) == before


def test_a_logical_type_may_be_added_to_a_named_type() -> None:
    fixed = {"type": "fixed", "name": "Cents", "size": 4}
    cents = {**fixed, "logicalType": "decimal", "precision": 5, "scale": 2}
    was, now = record(fixed, "Cents"), avro_schema.cut(record(cents, "Cents"), {"b"})
    assert avro_schema.difference(was, now) is None
    assert avro_schema.annotated(was, now) == record(cents, "Cents")


@given(schemas())
def test_no_schema_differs_from_itself(schema: dict[str, Any]) -> None:
    assert avro_schema.difference(schema, json.loads(json.dumps(schema))) is None
    assert avro_schema.difference(avro_schema.annotated(schema, schema), schema) is None
