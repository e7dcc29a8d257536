"""What dead letters say of a record that can't be read."""

from __future__ import annotations

import pytest

from anabranch.spark import faults

FIELDS = (
    ("small", "tinyint"),
    ("n", "int"),
    ("x", "double"),
    ("yes", "boolean"),
    ("at", "timestamp"),
    ("day", "date"),
    ("several", "array<int>"),
    ("inner", "struct<a:int>"),
    ("text", "string"),
)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "the value is null"),
        (b"", "the value is empty"),
        (b" \n", "the value is empty"),
        (b"{", "the value is not JSON: Expecting property name"),
        (b'{"n": 1} x', "the value is not JSON: Extra data"),
        (b"\xff\xfe{", "the value is not JSON: "),
        (b"[1]", "the value is JSON, but not an object: [1]"),
        (b"7", "the value is JSON, but not an object: 7"),
        (b"null", "the value is JSON, but not an object: null"),
        (b'{"n": "7"}', "the field 'n' is no int: \"7\""),
        (b'{"n": 2147483648}', "the field 'n' is no int: 2147483648"),
        (b'{"n": -2147483648, "small": 128}', "the field 'small' is no tinyint: 128"),
        (b'{"n": true}', "the field 'n' is no int: true"),
        (b'{"n": 1.5}', "the field 'n' is no int: 1.5"),
        (b'{"x": "1"}', "the field 'x' is no double: \"1\""),
        (b'{"yes": 1}', "the field 'yes' is no boolean: 1"),
        (b'{"at": "yesterday"}', "the field 'at' is no timestamp: \"yesterday\""),
        (b'{"day": 3}', "the field 'day' is no date: 3"),
        (b'{"several": {}}', "the field 'several' is no array<int>: {}"),
        (b'{"inner": []}', "the field 'inner' is no struct<a:int>: []"),
        (b'{"n": null, "text": 5, "other": "x"}', "the value isn't JSON of the declared schema"),
    ],
)
def test_why_a_value_is_not_what_was_declared(value: bytes | None, said: str) -> None:
    assert faults.of_json(value, FIELDS).startswith(said)


def test_a_long_value_is_cut() -> None:
    said = faults.of_json(b'{"n": "' + b"x" * 1000 + b'"}', FIELDS)
    assert said.startswith("the field 'n' is no int: \"xxx")
    assert len(said) < 120
    assert said.endswith("…")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("key", "the key 0x6b isn't 'k int'"),
        ("null_key", "the key is null, and the operator keeps its rows by key"),
        ("null_time", "the event time 'at' is null"),
        ("value", "the value is empty"),
    ],
)
def test_each_fault_has_its_words(fault: str, said: str) -> None:
    assert faults.explaining(faults.OfJson(FIELDS), "k int", "at")(fault, b"k", b"") == said


@pytest.mark.parametrize(
    ("ids", "value", "said"),
    [
        (None, None, "the value is null"),
        (None, b"x", "the value isn't Avro of its schema"),
        ((7,), b"", "the value doesn't begin with the id of a registered schema"),
        ((7,), b"\1\0\0\0\7x", "the value doesn't begin with the id of a registered schema"),
        ((7,), b"\0\0\0\0\7x", "the value isn't Avro of schema 7, or that can't be read by the job's"),
        ((7, 9), b"\0\0\0\1\0x", "schema 256 wasn't one of the subject's when the job first ran: 7, 9"),
        ((), b"\0\0\0\1\0x", "schema 256 wasn't one of the subject's when the job first ran: none"),
    ],
)
def test_what_is_wrong_with_avro(ids: tuple[int, ...] | None, value: bytes | None, said: str) -> None:
    assert faults.OfAvro(ids)(value) == said
