"""A Python daemon from which Spark forks workers. In these workers, Spark calls anabranch's sources for work
that isn't part of a Spark task. The daemon imports the sources' modules once, for all its workers.

Spark ends a worker that has been idle for a minute, but the daemon keeps running. So a lane that starts later needn't
wait for imports.

The first planning daemon of a session forks a server, which then forks the session's other Python daemons and the
processes of sources. The daemon's second argument is the address at which the server receives requests; see
:mod:`fork_server`.
"""

from __future__ import annotations

import gc
import importlib
import sys

from anabranch.spark.internals import worker_path

worker_path.drop_archives()  # before anything is imported from them

import pyspark.sql.streaming.python_streaming_source_runner  # noqa: F401
from pyspark.daemon import manager

import anabranch.spark.query.clock
import anabranch.systems.embedded.spark  # noqa: F401
from anabranch.spark.internals import fork_server, worker_start


def _nothing(*_: object) -> None:
    """Does nothing. Takes the place of ``print`` in Spark's worker."""


if __name__ == "__main__":
    worker = importlib.import_module(sys.argv[1])
    vars(worker)["print"] = _nothing  # otherwise each process would print each of its steps
    gc.collect()
    gc.freeze()  # see worker_daemon.py
    fork_server.serve(sys.argv[2], ["numpy", "pandas", "pyarrow.compute", "pyspark.worker", worker_start.DAEMON_MODULE])
    manager()
