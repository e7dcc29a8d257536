"""Generated values in generated schemas, against a strict reader of our own: 2,200 a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from anabranch.config import Settings, SparkSettings
from anabranch.spark.session import session
from tests.acceptance.harness import Workspace
from tests.integration.strict_checks import check
from tests.soak import generated_values

SCHEMAS, VALUES = 10, 220


def read_strictly(seed: int, workspace: Workspace) -> str:
    """Values are read as the strict reader reads them, or refused with a reason."""
    with _spark() as spark:
        for number in range(SCHEMAS):
            rng = random.Random(f"{seed} {number}")
            schema, read_as = generated_values.schema(rng)
            check(spark, schema, read_as, [generated_values.value(rng, schema, read_as) for _ in range(VALUES)])
    return f"{SCHEMAS * VALUES} values"


@contextmanager
def _spark() -> Iterator[SparkSession]:
    spark = session.start(Settings(spark=SparkSettings(master="local[2]", memory="1g")))
    try:
        yield spark
    finally:
        session.stop(spark)
