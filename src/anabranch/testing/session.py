"""Provides the Spark session of a test process: the running session or, if there is none, a small one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from anabranch.config import KafkaSettings, Settings, SparkSettings, SystemsSettings
from anabranch.errors import AnabranchError, ConfigError
from anabranch.formats import modules
from anabranch.job_code import environment
from anabranch.spark.internals import class_path, probes, running_context
from anabranch.spark.session import registered_sources, session
from anabranch.systems.kafka import jars
from anabranch.systems.systems import Systems

__all__ = ["shared"]

_SHORT_LIVED = {
    "spark.driver.defaultJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC -Xms256m"
    )
}
"""Java options for test processes, most of which run for about a minute. The options turn off Java's optimizing
compiler. With only the fast compiler, tests take a quarter less time. The fast compiler's code cache is small by
default. A process that runs longer would fill the cache, and Java would stop compiling. So the options make the cache
larger.
"""
_SMALL = SparkSettings(master="local[2,4]", memory="1g", conf=_SHORT_LIVED)


def shared(settings: Settings) -> SparkSession:
    """The session of this process. If there is none, this function starts a session that ends with the process.

    A running session gets the settings of Spark SQL that lanes need. A session that is started here has Spark's Kafka
    connector if the connector's jars are on this machine, or if the streams of the first call's job are in Kafka.

    Raises:
        AnabranchError: the job's streams are in Kafka, but the running session has no Kafka connector; or a session
            can't be started (see :func:`anabranch.spark.session.session.start`).
        UnsupportedSparkError: the session's Spark lacks something that every job needs.
    """
    on_kafka = settings.systems.default == "kafka"
    if not running_context.is_there():
        kafka = settings.systems.kafka
        systems = SystemsSettings(default="kafka" if on_kafka or _has_jars(kafka) else "embedded", kafka=kafka)
        binary = settings.streams if modules.needed(settings) else {}
        environment.follow()
        with _module_path():
            return session.start(Settings(spark=_SMALL, systems=systems, formats=settings.formats, streams=binary))
    spark = SparkSession.builder.getOrCreate()
    if on_kafka and not class_path.has_kafka_connector(spark):
        raise AnabranchError(
            "the Spark session of this process has no Kafka connector, and none can be added to it now",
            "fetch its jars (anabranch jars fetch), or let [systems.kafka] jars name a folder with them: then every "
            "session of anabranch.testing has it; or run the tests that have broker= first; give a session that you "
            "start yourself spark.jars or spark.jars.packages",
        )
    for name, value in session.SETTINGS.items():
        if name.startswith("spark.sql."):
            spark.conf.set(name, value)
    session.follow_environment(spark)
    probes.insist(spark)
    registered_sources.register(spark, Systems(Settings()))
    return spark


@contextmanager
def _module_path() -> Iterator[None]:
    """A context for starting the JVM. The JVM's Python workers import modules from the same folders as this process.
    When the context ends, the environment is as before, because a test might start processes with another Python
    version.
    """
    before = os.environ.get("PYTHONPATH")
    known = [before] if before else []
    os.environ["PYTHONPATH"] = os.pathsep.join([*known, *(path for path in sys.path if os.path.isdir(path))])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _has_jars(kafka: KafkaSettings) -> bool:
    try:
        return bool(jars.found(kafka).paths)
    except ConfigError:  # the error matters only to tests on Kafka, and is raised again there
        return False
