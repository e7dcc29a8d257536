"""What each batch would fail on is found when a job is planned, with the operator's name and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch import Job, Processor, ValueState, sliding, tumbling
from anabranch.api.stream import Stream
from anabranch.errors import GraphError
from anabranch.spark.operators import merging
from anabranch.spark.query import resolution
from tests.integration.harness import Site

TIMED = {"schema": "a int, b string, at timestamp", "event_time": "at", "watermark": "1 minute"}
PLAIN = {"schema": "a int, b string, d double, at timestamp, m map<string, int>"}


def table(schema: str) -> Callable[[SparkSession], DataFrame]:
    return lambda spark: spark.createDataFrame([], schema)


def counted(df: DataFrame) -> DataFrame:
    df.count()
    return df


def outer(df: DataFrame) -> DataFrame:
    other = df.sparkSession.range(3)
    return df.join(other, df.a == other.id, "full")


def typed(stream: Stream, kind: str) -> Stream:
    return stream.select("k", f"cast(a as {kind}) as a")


REFUSED: list[tuple[dict[str, Any], Callable[[Stream], Any], str, str]] = [
    # aggregates that can't be kept up to date
    (PLAIN, lambda s: s.agg(n="count(distinct b)"), "agg 'agg'", "approx_count_distinct"),
    (PLAIN, lambda s: s.agg(n="count(distinct b, a)", c="count(*)"), "Distinct aggregations", "approx_count_distinct"),
    (PLAIN, lambda s: s.agg(n="sum(distinct a)"), "can't run on a stream", "approx_count_distinct"),
    (TIMED, lambda s: s.window(tumbling("1 hour")).agg(n="count(distinct b)"), "agg 'agg'", "approx_count_distinct"),
    (
        TIMED,
        lambda s: s.window(sliding("1 hour", "1 minute")).agg(n="count(distinct b)", emit="on_update"),
        "agg",
        "app",
    ),
    (PLAIN, lambda s: s.agg(n="sum(count(*)) over ()"), "agg 'agg'", "window functions look at many rows"),
    (PLAIN, lambda s: s.agg(n="sum(count(*))"), "agg 'agg'", "aggregate function in the argument of another"),
    (PLAIN, lambda s: s.agg(n="a + 1"), "agg 'agg'", "MISSING_AGGREGATION"),
    (PLAIN, lambda s: s.agg(n="sum(rand())"), "agg 'agg'", "NONDETERMINISTIC"),
    (PLAIN, lambda s: s.agg(n="max(m)"), "agg 'agg'", "does not support ordering"),
    (PLAIN, lambda s: s.agg(by=["nowhere"], n="count(*)"), "agg 'agg'", "`nowhere` cannot be resolved"),
    # functions of frames that only batches can have
    (PLAIN, lambda s: s.transform(counted), "transform 'transform'", "Queries with streaming sources"),
    (PLAIN, lambda s: s.transform(outer), "transform 'transform'", "FullOuter joins with streaming"),
    (TIMED, lambda s: s.transform(lambda df: df.distinct()), "transform 'transform'", "adds a stateful step"),
    (TIMED, lambda s: s.transform(lambda df: df.withWatermark("at", "1 minute")), "transform", "adds a stateful step"),
    (PLAIN, lambda s: s.transform(lambda df: df.sample(0.5)), "transform 'transform'", "Sampling is not supported"),
    (
        PLAIN,
        lambda s: (s.write("all"), s.with_columns(i="monotonically_increasing_id()"))[1],
        "with_columns",
        "not sup",
    ),
    # window functions, unknown functions and columns
    (PLAIN, lambda s: s.select("k", "row_number() over (order by a) as r"), "select", "adds a stateful step (Window)"),
    (PLAIN, lambda s: s.where("shout(b) = 'X'"), "where 'where'", "Cannot resolve routine `shout`"),
    (PLAIN, lambda s: s.where("nowhere > 1"), "where 'where'", "`nowhere` cannot be resolved"),
    (PLAIN, lambda s: s.where("count(*) > 1"), "where 'where'", "INVALID_WHERE_CONDITION"),
    (PLAIN, lambda s: s.partition_by("nowhere").agg(n="count(*)"), "partition_by", "`nowhere` cannot be resolved"),
    # names
    ({"schema": "a int, A int"}, lambda s: s, "read 'in'", "the columns 'a' and 'A'"),
    ({"schema": "K int"}, lambda s: s, "read 'in'", "the columns 'k' and 'K'"),
    (PLAIN, lambda s: s.select("k", "a", "d as A"), "select 'select'", "the columns 'a' and 'A'"),
    (PLAIN, lambda s: s.select("k", "a", "a"), "select 'select'", "the columns 'a' twice"),
    (PLAIN, lambda s: s.map(dict, schema="k string, a int, A int"), "map 'map'", "the columns 'a' and 'A'"),
    (PLAIN, lambda s: s.agg(K="count(*)"), "agg 'agg'", "the columns 'k' and 'K'"),
    (PLAIN, lambda s: s.agg(by=["a"], A="count(*)"), "agg 'agg'", "the columns 'a' and 'A'"),
    (TIMED, lambda s: s.window(tumbling("1 hour")).agg(window_end="count(*)"), "agg 'agg'", "'window_end' twice"),
    ({"schema": "_anabranch int"}, lambda s: s, "read 'in'", "_anabranch"),
    ({"schema": "_anabranch_value int"}, lambda s: s, "read 'in'", "anabranch's own"),
    ({"schema": "_anabranch_corrupt string"}, lambda s: s, "read 'in'", "anabranch's own"),
    (PLAIN, lambda s: s.select("k", "1 as _Anabranch_x"), "select 'select'", "anabranch's own"),
    (PLAIN, lambda s: s.select("k", "1 as _anabranch"), "select 'select'", "anabranch's own"),
    (PLAIN, lambda s: s.with_columns(_anabranch="1"), "with_columns", "anabranch's own"),
    (PLAIN, lambda s: s.with_columns(_ANABRANCH="1"), "with_columns", "anabranch's own"),
    (PLAIN, lambda s: s.map(dict, schema="k string, _anabranch int"), "map 'map'", "anabranch's own"),
    (PLAIN, lambda s: s.agg(_task="count(*)"), "agg 'agg'", "anabranch's own"),
    ({"schema": "_task int"}, lambda s: s.agg(by=["_task"], n="count(*)"), "read 'in'", "anabranch's own"),
    # types
    (PLAIN, lambda s: s.join_table(table("b int, v int"), on="b"), "the column 'b' of the stream is string", "int"),
    (PLAIN, lambda s: s.join_table(table("a string, v int"), on="a"), "the column 'a' of the stream is int", "string"),
    (
        PLAIN,
        lambda s: s.join_table(table("x string, v int"), on={"at": "x"}),
        "is timestamp, but the column",
        "cast(at as",
    ),
    (PLAIN, lambda s: s.join_table(table("x struct<y: int>"), on={"a": "x"}), "is int, but the column", "struct"),
    (PLAIN, lambda s: s.join_table(table("m map<string, int>, v int"), on="m"), "join_table", "ordering"),
    (PLAIN, lambda s: s.select("k", "a").merge(s.select("k", "b as a")), "merge 'merge'", "'a' as int and as string"),
    (
        PLAIN,
        lambda s: s.select("k", "null as a").merge(s.select("k", "a"), s.select("k", "b as a")),
        "'a' as int and as string",
        "cast(a as int)",
    ),
    (
        PLAIN,
        lambda s: typed(s, "decimal(38,0)").merge(typed(s, "decimal(4,3)")),
        "'a' as decimal(38,0) and as decimal(4,3), and 38 digits aren't enough",
        'with_columns(a="cast(a as decimal(38,3))")',
    ),
    (
        PLAIN,
        lambda s: typed(s, "decimal(20,0)").merge(typed(s, "decimal(10,10)"), typed(s, "decimal(38,0)")),
        "'a' as decimal(30,10) and as decimal(38,0), and",
        'with_columns(a="cast(a as decimal(38,10))")',
    ),
    (PLAIN, lambda s: s.select("k", "map(at, a) as c"), "writes 'c' as map<timestamp,int>", "cast(k as string)"),
    (
        PLAIN,
        lambda s: s.select("k", "array(named_struct('x', map(b, map(binary(b), a)))) as c"),
        "writes 'c[].x{}' as map<binary,int>",
        "cast(k as string)",
    ),
    # keys that another try would give other values
    (PLAIN, lambda s: s.with_columns(r="rand()").partition_by("r"), "partition_by 'by-r'", "xxhash64"),
    (PLAIN, lambda s: s.select("k", "a + rand() as r").where("r > 0").partition_by("r"), "partition_by", "xxhash64"),
    (PLAIN, lambda s: s.with_columns(r="uuid()").with_columns(q="upper(r)").agg(by=["q"], n="count(*)"), "agg", "xxh"),
    (PLAIN, lambda s: s.select("explode(array(rand())) as r").partition_by("r"), "partition_by 'by-r'", "xxhash64"),
    (
        PLAIN,
        lambda s: s.with_columns(r="array(rand())").select("posexplode(r) as (n, q)").partition_by("q"),
        "partition_by 'by-q'",
        "xxhash64",
    ),
]


@pytest.mark.parametrize(("read", "build", "what", "also"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
@pytest.mark.suite(cases=16)
def test_it_is_found_when_planned(
    spark: SparkSession, read: dict[str, Any], build: Callable[[Stream], Any], what: str, also: str
) -> None:
    job = Job("bad")
    build(job.read("in", key="k string", **read)).write("out")
    with pytest.raises(GraphError) as told:
        resolution.columns(job.graph, job.functions, {}, __file__)
    text = str(told.value)
    assert what in text
    assert also in text
    assert "(test_planned_errors.py:" in text
    assert told.value.cure


@pytest.mark.parametrize("kind", ["`n.n` int", "n int, `leg no` int", "array<struct<`1st`: int>>"])
def test_a_state_that_spark_can_t_keep_is_found_when_planned(spark: SparkSession, kind: str) -> None:
    class Keeping(Processor):
        kept = ValueState(kind)

    job = Job("bad")
    job.read("in", key="k string", schema="b string").process(Keeping()).write("out")
    with pytest.raises(GraphError, match=r"state 'kept' has a field '.+'; Spark can't store this name"):
        resolution.columns(job.graph, job.functions, {}, __file__)


@pytest.mark.parametrize("key", ["uuid()", "concat(b, rand())"])
def test_a_key_by_chance_is_found_when_planned(spark: SparkSession, key: str) -> None:
    job = Job("bad")
    job.read("in", schema="b string").write("out", key=key)
    with pytest.raises(GraphError, match="changes when a batch is computed again"):
        resolution.columns(job.graph, job.functions, {}, __file__)


KEPT: list[tuple[dict[str, Any], Callable[[Stream], Any]]] = [
    (PLAIN, lambda s: s.where("rand() < 2").with_columns(r="rand()", now="current_timestamp()").partition_by("a")),
    (PLAIN, lambda s: s.with_columns(r="rand()").with_columns(r="a").partition_by("r")),
    (PLAIN, lambda s: s.with_columns(r="current_timestamp()").partition_by("r")),
    (PLAIN, lambda s: s.with_columns(r="rand()").select("r", "explode(array(a, 2)) as n").partition_by("n")),
    (PLAIN, lambda s: s.agg(n="approx_count_distinct(b)", m="percentile(a, 0.5)", o="collect_list(a)", p="mode(b)")),
    (PLAIN, lambda s: s.join_table(table("a long, v int"), on="a")),
    (PLAIN, lambda s: s.select("k", "a").merge(s.select("k", "d as a"), s.select("k", "null as a"))),
    (PLAIN, lambda s: typed(s, "decimal(10,2)").merge(typed(s, "int"), typed(s, "decimal(12,4)"))),
    (PLAIN, lambda s: s.join_table(table("a int, v int"), on="a").transform(counted)),
    (PLAIN, lambda s: s.select("k", "map(a, m) as c", "map(d, map(a > 1, b)) as e", "map(decimal(a), a) as f")),
    (TIMED, lambda s: s.window(tumbling("1 hour")).agg(n="count(*)", m="first(b)")),
    (PLAIN, lambda s: s.select("* except (a)").with_columns(next="upper(b)", more="next || next")),
    (
        PLAIN,
        lambda s: s.select("k", "a as SortOrder", "b as `Window seat`").select("k", "SortOrder", "'Distinct' as d"),
    ),
]


@pytest.mark.parametrize(("read", "build"), KEPT, ids=[str(n) for n in range(len(KEPT))])
def test_what_works_is_not_refused(spark: SparkSession, read: dict[str, Any], build: Callable[[Stream], Any]) -> None:
    job = Job("good")
    build(job.read("in", key="k string", **read)).write("out")
    assert resolution.columns(job.graph, job.functions, {}, __file__)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "bigint"),
        ("float", "int"),
        ("decimal(38,0)", "float"),
        ("void", "string"),
        ("decimal(10,0)", "decimal(10,10)"),
        ("decimal(30,0)", "decimal(9,8)"),
        ("bigint", "decimal(38,18)"),
        ("tinyint", "decimal(2,1)"),
    ],
)
def test_spark_merges_columns_to_the_type_that_is_checked(spark: SparkSession, one: str, other: str) -> None:
    frames = [spark.sql(f"select cast(null as {kind}) as a") for kind in (one, other)]
    wanted = merging.common_type(frames[0].schema["a"].dataType, frames[1].schema["a"].dataType)
    assert frames[0].unionByName(frames[1]).schema["a"].dataType == wanted


def by_name(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "the.text": f"{message['a.b']}{message['from']}"}


@pytest.mark.long
def test_columns_may_have_any_name(site: Site) -> None:
    schema = (
        "`a.b` int, `the.text` string, `from` string, `order` int, value int, offset int, `x``y` int, `t.at` timestamp"
    )
    site.system.create("in", 1)
    row = {"a.b": 1, "from": "f", "order": 2, "value": 3, "offset": 4, "x`y": 5, "t.at": "2020-01-01T00:00:00Z"}
    site.put("in", 0, [row, {**row, "from": "g"}], [b"k", b"k"])
    job = Job("named")
    rows = job.read("in", key="`key.k` string", schema=schema, event_time="t.at", watermark="1 minute")
    mapped = rows.map(by_name).select("*", "1.5 * `a.b`").map_arrow(lambda batch: batch)
    mapped.where("`a.b` = 1 and `from` <> 'z'").with_columns(**{"c.d": "`x``y` + `order`"}).write("mapped")
    rows.select("*", "`a.b` + value as `e.f`").write("selected")
    rows.select("*").write("all")
    rows.join_table(table_of_names, on="a.b").write("joined")
    chosen = rows.select("`key.k`", "`a.b`", "offset as `leg no`", "`from`", "`order`", "`x``y`", "`t.at`")
    by = chosen.partition_by("a.b", "leg no")
    by.window(tumbling("1 hour")).agg(by=["from"], **{"n.n": "count(*)", "select": "max(`order`)"}).write("counts")
    by.process(Named(), schema="`a.b` int, `leg no` int, `s.s` string").write("processed")
    site.deployed(job, on_error="dead-letter").ran()
    assert [row["the.text"] for row in site.values("mapped")] == ["1f", "1g"]
    assert [row["c.d"] for row in site.values("mapped")] == [7, 7]
    assert [row["e.f"] for row in site.values("selected")] == [4, 4]
    assert [row["key.k"] for row in site.values("all")] == ["k", "k"]
    assert [row["v.w"] for row in site.values("joined")] == ["x", "x"]
    assert sorted(row["s.s"] for row in site.values("processed")) == ["f1", "g2"]


def table_of_names(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "x")], "`a.b` int, `v.w` string")


class Named(Processor):
    seen = ValueState("n int, `from` string")

    def on_message(self, message: dict[str, Any], timers: Any) -> Iterable[dict[str, Any]]:
        number = 1 if self.seen.get() is None else self.seen.get()["n"] + 1
        self.seen.set({"n": number, "from": message["from"]})
        yield {"a.b": message["a.b"], "leg no": message["leg no"], "s.s": f"{message['from']}{number}"}
