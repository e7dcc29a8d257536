"""The column that anabranch adds to rows is in no value that a user's expression makes of all columns."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.testing import run

ROWS: list[dict[str, Any]] = [{"k": "a", "n": n} for n in range(3)]


def test_all_columns_in_a_value_are_the_users_own(spark: SparkSession) -> None:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int")
    (
        read.where("to_json(struct(*)) not like '%anabranch%'")
        .select("k", "to_json(struct(*)) as j", "struct(* except (k)) as rest")
        .with_columns(whole="to_json(struct(*))")
        .write("out", key="map_values(from_json(to_json(struct(*)), 'map<string, string>'))[0]")
    )
    read.agg(most="max(to_json(struct(*)))").write("counts")
    found = run(job, {"in": ROWS}, partitions=1)
    rows = sorted(found["out"], key=lambda row: str(row["j"]))
    assert [json.loads(row["j"]) for row in rows] == ROWS
    assert [row["rest"] for row in rows] == [{"n": n} for n in range(3)]
    assert [json.loads(row["whole"]).keys() for row in rows] == [{"k", "j", "rest"}] * 3
    assert json.loads(found.latest("counts", "k")["a"]["most"]) == ROWS[-1]
