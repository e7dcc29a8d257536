"""The Python daemon from which the workers of Spark tasks are forked. The daemon imports the workers' modules once, for
all workers.

A worker collects garbage between Spark tasks. Imported objects are excluded, because examining them would often
take longer than a Spark task.
"""

from __future__ import annotations

import gc

from anabranch.spark.internals import worker_path

worker_path.drop_archives()  # before anything is imported from them

import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.streaming.proto.StateMessage_pb2
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import anabranch.spark.functions.job_functions
import anabranch.spark.operators.processing
import anabranch.spark.query.clock
import anabranch.spark.query.sink
import anabranch.systems.embedded.output
import anabranch.systems.embedded.spark
import anabranch.systems.kafka.output  # noqa: F401
from anabranch.job_code import job_modules
from anabranch.spark.internals import random_numbers, whole_input

if __name__ == "__main__":
    whole_input.insist()
    job_modules.enter_from_environment()
    random_numbers.seed_forks()
    gc.collect()
    gc.freeze()
    manager()
