"""Spark's Python daemon, with what its workers need imported once: they are forked from it."""

from __future__ import annotations

import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.streaming.proto.StateMessage_pb2
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import anabranch.spark.clock
import anabranch.spark.processing
import anabranch.spark.sink
import anabranch.systems.embedded.output
import anabranch.systems.embedded.spark  # noqa: F401

if __name__ == "__main__":
    manager()
