"""Writes dead letters: records that could not be processed. Python workers write them, as a part of their batch's
output.

A dead letter is the record itself (bytes, headers and timestamp), with headers for the error and the record's origin. A
rejected row that doesn't come from a single record becomes a dead letter with the row as JSON, and without an origin.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, SparkContext
from pyspark.sql import SparkSession

from anabranch.errors import GraphError
from anabranch.spark.functions import error_text
from anabranch.spark.query import aborting
from anabranch.spark.query.dead_letter_sizes import CUT, PREFIX, fitting
from anabranch.spark.query.records import batch_number, task_number
from anabranch.systems.contract import Records, System
from anabranch.systems.fetching import fetch
from anabranch.systems.output import Output, Target, Written
from anabranch.systems.records import RECORD_SCHEMA

def _identity(source: int, errors: Mapping[int, str], derived: Iterable[_Derived]) -> bytes:
    """A digest of what a Spark task has rejected. It is the same if the Spark task is repeated, even if error texts
    differ. If two Spark tasks reject the same records, it is the same, too. But different rows can be equal if they
    don't come from a single record, so the digest then includes the number of the Spark task, and the source.
