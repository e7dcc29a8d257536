"""Files that are joined with a stream: columns are found by name, and nothing becomes null that isn't."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.container import error_text
from anabranch.container.error_text import Remedy
from anabranch.errors import GraphError
from anabranch.spark.operators.lookups import Lookups, load, nothing
from anabranch.spark.query import resolution

AIRPORTS = ",iata,city,name,zone\n0,MIA,Miami,Miami International,5\n1,SFO,San Francisco,,8\n"
"""As pandas writes them: the first column has no name."""


def job(path: Path, schema: str | None, **more: Any) -> Job:
    made = Job("j")
    read = made.read("in", key="k string", schema="n int, dest string")
    read.join_table(str(path), **{"on": {"dest": "iata"}, "schema": schema, **more}).write("out")
    return made


def rows(spark: SparkSession, path: Path, schema: str, **more: Any) -> list[dict[str, Any]]:
    """What a lane holds of the table."""
    made = job(path, schema, **more)
    table = partial(load, functions={}, records=nothing, formats={})
    lookups = Lookups(table, resolution.columns(made.graph, {}, {}, __file__), lambda: 0.0)
    return [row.asDict(recursive=True) for row in lookups.now(made.graph[1], spark).orderBy("iata").collect()]


def saved(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("schema", ["iata string, NAME string, zone int", "zone int, NAME string, iata string"])
def test_columns_of_a_csv_file_are_found_by_the_names_in_its_header(
    spark: SparkSession, tmp_path: Path, schema: str
) -> None:
    assert rows(spark, saved(tmp_path / "airports.csv", AIRPORTS), schema) == [
        {"iata": "MIA", "NAME": "Miami International", "zone": 5},
        {"iata": "SFO", "NAME": None, "zone": 8},
    ]


def test_values_of_a_csv_file_have_the_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.csv", "iata,d,t,b,c,x\nMIA,2020-01-02,2020-01-02T03:04:05Z,true,1.25,\n")
    schema = "iata string, t timestamp, d date, b boolean, c decimal(5,2), x int"
    (row,) = rows(spark, path, schema)
    at = row.pop("t")
    assert at.astimezone(dt.UTC) == dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert row == {"iata": "MIA", "d": dt.date(2020, 1, 2), "b": True, "c": Decimal("1.25"), "x": None}


def test_a_value_that_is_not_of_its_declared_type_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path / "airports.csv", AIRPORTS + "2,BOS,Boston,Logan,east\n")
    with pytest.raises(Exception, match="east") as raised:
        rows(spark, path, "iata string, zone int")
    failure = error_text.failure(raised.value)
    assert failure.what.endswith(f"the column 'zone' of {path} is int, and has the value 'east'")
    assert failure.reasons == ('correct the value, or declare the column as string: schema="zone string"',)
    assert failure.remedy is Remedy.ATTEMPT


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(5,2)", " 12.500", Decimal("12.50")),
        ("decimal(5,2)", "1.25e1", Decimal("12.50")),
        ("decimal(5,2)", "0E-18", Decimal("0.00")),
        ("decimal(5,0)", "1200e-2", Decimal("12")),
        ("decimal(5,2)", "12.505", None),
        ("decimal(5,2)", "1255e-3", None),
        ("decimal(5,2)", "1234.5", None),
        ("int", " 007", 7),
        ("int", "1.5", None),
        ("tinyint", "200", None),
        ("double", "-Infinity", float("-inf")),
        ("double", ".5", 0.5),
        ("double", "1e400", None),
        ("double", "1.5d", None),
        ("double", "0x1p3", None),
        ("float", "1e39", None),
        ("date", "2024-1-31", dt.date(2024, 1, 31)),
        ("date", "2024", None),
        ("date", "2024-01-31 10:15:00", None),
        ("timestamp_ntz", "2024-01-31", dt.datetime(2024, 1, 31)),
        ("timestamp_ntz", "2024-01-31 10:15:00.25", dt.datetime(2024, 1, 31, 10, 15, 0, 250_000)),
        ("timestamp_ntz", "2024-01-31T10:15:00+02:00", None),
        ("timestamp", "10:15", None),
        ("timestamp", "T10:15:00", None),
        ("timestamp", "2024-01", None),
        ("boolean", "maybe", None),
    ],
)
def test_a_text_of_a_csv_file_is_read_exactly_or_not_at_all(
    spark: SparkSession, tmp_path: Path, kind: str, text: str, value: Any
) -> None:
    path = saved(tmp_path / "t.csv", f"iata,x\nMIA,{text}\n")
    if value is not None:
        assert rows(spark, path, f"iata string, x {kind}") == [{"iata": "MIA", "x": value}]
        return
    with pytest.raises(Exception, match=re.escape(text)) as raised:
        rows(spark, path, f"iata string, x {kind}")
    told = error_text.failure(raised.value).what
    assert told.endswith(f"the column 'x' of {path} is {kind}, and has the value '{text}'")


@pytest.mark.parametrize("line", ["2,BOS,Boston", "2,BOS,Boston,Logan,5,6", "2,BOS,Boston, Massachusetts,Logan,5"])
@pytest.mark.parametrize("schema", ["iata string, zone int", "iata string"])
def test_a_line_with_too_few_or_too_many_values_is_told(
    spark: SparkSession, tmp_path: Path, line: str, schema: str
) -> None:
    path = saved(tmp_path / "airports.csv", f"{AIRPORTS}{line}\n")
    with pytest.raises(Exception, match=r"airports\.csv") as raised:
        rows(spark, path, schema)
    failure = error_text.failure(raised.value)
    told = " ".join([failure.what, *failure.reasons])
    assert line.split(",")[1] in told, told
    assert "airports.csv" in told
    assert failure.remedy is Remedy.ATTEMPT


@pytest.mark.parametrize(
    ("text", "schema", "told"),
    [
        (AIRPORTS, "iata string, code int", "airports.csv has no column 'code', but _c0, iata, city, name, zone"),
        ("", "iata string", "airports.csv has no column 'iata', but is empty"),
        ("iata,n\n", "iata string, n int", "has the column 'n' on both sides"),
    ],
    ids=["a column is missing", "there is no header", "a column of the stream"],
)
def test_a_header_that_does_not_fit_is_told(
    spark: SparkSession, tmp_path: Path, text: str, schema: str, told: str
) -> None:
    with pytest.raises(GraphError, match=told):
        rows(spark, saved(tmp_path / "airports.csv", text), schema)


def test_the_files_of_a_folder_must_have_the_same_header(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "airports"
    saved(folder / "a.csv", "iata,zone\nMIA,5\n")
    saved(folder / "b.csv", '\n"iata",zone\nSFO,8\n')
    saved(folder / "c.csv", "")
    found = rows(spark, folder, "zone int, iata string", format="csv")
    assert found == [{"iata": "MIA", "zone": 5}, {"iata": "SFO", "zone": 8}]
    saved(folder / "b.csv", "zone,iata\n8,SFO\n")
    with pytest.raises(GraphError, match=r"different headers: .*a.csv has iata, zone, but .*b.csv has zone, iata"):
        rows(spark, folder, "zone int, iata string", format="csv")


def test_a_folder_without_files_is_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "airports").mkdir()
    assert rows(spark, tmp_path / "airports", "iata string, zone int", format="csv") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [("iata,zone\nMIA,5\n", "zone,iata\n8,SFO\n"), ('"IATA",zone\nMIA,5\n', 'zone,"IATA"\n8,SFO\n')],
)
def test_a_file_that_is_replaced_before_its_rows_are_read_is_not_read_by_position(
    spark: SparkSession, tmp_path: Path, before: str, after: str
) -> None:
    path = saved(tmp_path / "airports.csv", before)
    made = job(path, "iata string, zone string")

    def table(*_: Any) -> Any:
        found = load(made.graph[1], spark, {}, nothing, {})
        saved(path, after)
        return found

    lookups = Lookups(table, resolution.columns(made.graph, {}, {}, __file__), lambda: 0.0)
    with pytest.raises(Exception, match="header") as raised:
        lookups.now(made.graph[1], spark)
    failure = error_text.failure(raised.value)
    assert "CSV header does not conform to the schema" in failure.what
    assert failure.remedy is Remedy.ATTEMPT


@pytest.mark.parametrize(
    "header", ['\ufeff"iata","zone"', "Iata,ZONE", "iata,zone,", "iata,zone,n,N", "iata,zone,,", "zone0,zone,iata"]
)
def test_headers_of_all_kinds_are_taken(spark: SparkSession, tmp_path: Path, header: str) -> None:
    values = {"iata": "MIA", "zone": "5"}
    names = [name.strip('\ufeff" ').lower() for name in header.split(",")]
    line = ",".join(values.get(name, "1") for name in names)
    path = saved(tmp_path / "airports.csv", f"{header}\n{line}\n")
    assert rows(spark, path, "iata string, zone int") == [{"iata": "MIA", "zone": 5}]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.suite(cases=1)
def test_a_column_that_files_do_not_have_is_told_and_is_not_null(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    path = tmp_path / f"airports.{format_}"
    spark.range(1).selectExpr("'MIA' AS iata", "5 AS zone").write.format(format_).save(str(path))
    assert rows(spark, path, "ZONE bigint, iata string") == [{"iata": "MIA", "ZONE": 5}]
    with pytest.raises(GraphError, match=rf"airports\.{format_} has no column 'code', but iata, zone"):
        rows(spark, path, "iata string, code int")
    spark.range(1).selectExpr("'SFO' AS iata", "6 AS zone", "7 AS code").write.format(format_).mode("append").save(
        str(path)
    )
    found = rows(spark, path, "iata string, code int")
    assert found == [{"iata": "MIA", "code": None}, {"iata": "SFO", "code": 7}]


@pytest.mark.parametrize(
    ("held", "declared", "value"),
    [
        ("CAST(5 AS tinyint)", "bigint", 5),
        ("5", "double", 5.0),
        ("5", "decimal(12,2)", Decimal("5.00")),
        ("5", "decimal(11,2)", None),
        ("array(5)", "array<bigint>", [5]),
        ("array(5L)", "array<int>", None),
        ("map('k', named_struct('a', 1, 'b', 'x'))", "map<string, struct<A: bigint>>", {"k": {"A": 1}}),
        ("named_struct('a', 1, 'b', 'x')", "struct<A: int>", {"A": 1}),
        ("CAST(1.5 AS float)", "double", 1.5),
        ("CAST(1.25 AS decimal(5,2))", "decimal(8,3)", Decimal("1.250")),
        ("CAST('ü' AS binary)", "string", "ü"),
        ("TIMESTAMP_NTZ'2026-01-02 03:04:05'", "string", None),
        ("5L", "int", None),
        ("'5'", "int", None),
        ("5", "string", None),
        ("1.5D", "int", None),
        ("CAST(1.25 AS decimal(5,2))", "decimal(5,1)", None),
        ("named_struct('a', 1)", "struct<a: int, b: int>", None),
    ],
)
@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_column_of_a_file_has_its_type_or_a_wider_one(
    spark: SparkSession, tmp_path: Path, held: str, declared: str, value: Any, format_: str
) -> None:
    path = tmp_path / f"airports.{format_}"
    spark.range(1).selectExpr("'MIA' AS iata", f"{held} AS x").write.format(format_).save(str(path))
    if value is None:
        with pytest.raises(GraphError, match=r"the column 'x' of .* is \S+, and is declared as "):
            rows(spark, path, f"iata string, x {declared}")
    else:
        assert rows(spark, path, f"iata string, x {declared}") == [{"iata": "MIA", "x": value}]


@pytest.mark.parametrize("format_", ["parquet", "orc"])
@pytest.mark.suite(cases=1)
def test_a_column_by_which_a_folder_is_partitioned_has_its_declared_type(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    path = tmp_path / "by month" / f"airports.{format_}"
    for month, zone in (("01", "5"), ("a%3Ab", "5L")):
        table = spark.range(1).selectExpr(f"'{month[:2]}' AS iata", f"{zone} AS zone")
        table.write.format(format_).save(f"{path}/month={month}")
        found = rows(spark, path, "MONTH string, zone bigint, iata string")
        assert found[0] == {"iata": "01", "MONTH": "01", "zone": 5}
    assert found[1] == {"iata": "a%", "MONTH": "a:b", "zone": 5}
    with pytest.raises(GraphError, match=r"the column 'zone' of .* is bigint, and is declared as int"):
        rows(spark, path, "month string, zone int, iata string")
    with pytest.raises(GraphError, match="has no column 'code', but iata, zone, month"):
        rows(spark, path, "iata string, code int")


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "orc"])
def test_a_table_without_rows_is_a_table(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    path = tmp_path / f"airports.{format_}"
    if format_ == "json":
        saved(path, "")
    else:
        table = spark.range(0).selectExpr("'MIA' AS iata", "5 AS zone").coalesce(1)
        table.write.format(format_).options(header="true").save(str(path))
    assert rows(spark, path, "iata string, zone int") == []


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (None, "can't read its table: .*Unexpected end-of-input"),
        ("iata string, zone bigint", "a line of its table can't be read: the value isn't JSON: Unexpected end"),
    ],
)
def test_a_broken_line_of_a_json_file_is_told(
    spark: SparkSession, tmp_path: Path, schema: str | None, told: str
) -> None:
    path = saved(tmp_path / "airports.json", '{"iata": "MIA", "zone": 5}\n')
    made = job(path, schema)
    lookups = Lookups(
        partial(load, functions={}, records=nothing, formats={}),
        resolution.columns(made.graph, {}, {}, __file__),
        lambda: 0.0,
    )
    saved(path, '{"iata": "MIA", "zone": 5}\n{"iata": "SFO", "zo\n')
    with pytest.raises(Exception, match="airports") as raised:
        lookups.now(made.graph[1], spark)
    failure = error_text.failure(raised.value)
    assert re.search(told, failure.what)
    assert failure.remedy is Remedy.ATTEMPT


def test_a_key_that_no_row_of_a_json_file_has_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path / "airports.json", '{"IATA": "MIA", "zone": 5}\n{"IATA": "SFO", "zone": 6}\n')
    with pytest.raises(GraphError, match=r"no row of .*airports\.json has a value in its key column 'iata'"):
        rows(spark, path, "iata string, zone int")
    saved(path, '{"iata": "MIA"}\n{"zone": 6}\n')
    assert len(rows(spark, path, "iata string, zone int")) == 2
    saved(path, "\n")
    assert rows(spark, path, "iata string, zone int") == []


def test_a_json_value_that_is_not_of_its_declared_type_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path / "airports.json", '{"iata": "MIA", "zone": 5}\n{"iata": "SFO"}\n')
    assert rows(spark, path, "iata string, zone int") == [{"iata": "MIA", "zone": 5}, {"iata": "SFO", "zone": None}]
    saved(path, '{"iata": "MIA", "zone": "east"}\n')
    with pytest.raises(Exception, match="east") as raised:
        rows(spark, path, "iata string, zone int")
    failure = error_text.failure(raised.value)
    assert "a line of its table can't be read: the column 'zone' is no int: \"east\"; it is in file:" in failure.what
    assert failure.what.endswith("airports.json")
    assert failure.reasons == (
        "correct the line, or declare the columns in schema= as the file has them, and cast them in SQL",
    )
    assert failure.remedy is Remedy.ATTEMPT


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"iata": "MIA", "c": 1.255}', "too many digits"),
        ('{"iata": "MIA", "at": "10:15"}', "times are written as"),
        ('{"iata": "MIA", "day": "2024"}', "dates are written as"),
        ('{"iata": "MIA", "at": 1706695800}', "the column 'at' is no timestamp: 1706695800 ("),
        ('{"iata": "MIA", "iata": "SFO"}', "Duplicate field 'iata'"),
        ('{"iata": "MIA"} {"iata": "SFO"}', "goes on behind the end"),
        ("{'iata': 'MIA'}", "isn't JSON"),
        ('{"iata": 5}', "the column 'iata' is no string: 5"),
        ('[{"iata": "MIA"}]', "but not an object"),
    ],
)
def test_a_line_of_json_is_read_as_strictly_as_a_record(
    spark: SparkSession, tmp_path: Path, line: str, told: str
) -> None:
    path = saved(tmp_path / "t.json", f'{{"iata": "SFO", "c": 1.2500, "at": "2024-01-31T10:15:00Z"}}\n{line}\n')
    with pytest.raises(Exception, match="a line of its table") as raised:
        rows(spark, path, "iata string, c decimal(5,2), at timestamp, day date")
    assert told in error_text.failure(raised.value).what


@pytest.mark.parametrize("line", ["{'iata': 'MIA'}", '{"iata": NaN}'])
def test_lines_without_a_declared_schema_must_be_json_too(spark: SparkSession, tmp_path: Path, line: str) -> None:
    path = saved(tmp_path / "t.json", '{"iata": "MIA"}\n')
    made = job(path, None)
    columns = resolution.columns(made.graph, {}, {}, __file__)
    saved(path, f'{{"iata": "MIA"}}\n{line}\n')
    with pytest.raises(Exception, match="can't read its table"):
        Lookups(partial(load, functions={}, records=nothing, formats={}), columns, lambda: 0.0).now(
            made.graph[1], spark
        )


def test_a_folder_of_json_files_that_is_partitioned(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "airports.json"
    for month, text in (("01", '\ufeff{"iata": "MIA", "x": 5}\r\n\r\n'), ("02", ' {"iata": "SFO", "more": [1]}')):
        (folder / f"month={month}").mkdir(parents=True)
        saved(folder / f"month={month}" / "a.json", text)
    found = rows(spark, folder, "MONTH string, x int, iata string")
    assert found == [{"MONTH": "01", "x": 5, "iata": "MIA"}, {"MONTH": "02", "x": None, "iata": "SFO"}]


def test_a_type_that_can_not_be_read_from_json_is_told(spark: SparkSession, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", "")
    with pytest.raises(GraphError, match="x"):
        rows(spark, path, "iata string, x map<int, string>")
