"""Lists the private parts of Spark that anabranch needs, and checks whether a session's Spark has them."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch import logs
from anabranch.spark.internals import (
    batch_clock,
    checkpoint_files,
    checkpoint_layout,
    class_path,
    context_stop,
    debug_lines,
    error_texts,
    executors,
    hadoop_files,
    java_functions,
    java_process,
    kept_timers,
    local_properties,
    observed_metrics,
    query_hold,
    query_plan,
    query_progress,
    read_limits,
    source_environment,
    state_rewrite,
    state_rows,
    stop_at_batch,
    surface,
    thread_dump,
    type_verifiers,
    unsupported_operations,
    whole_input,
    worker_start,
)
from anabranch.spark.internals.surface import Probe, Surface

__all__ = ["SURFACES", "insist", "look"]

SURFACES: tuple[Surface, ...] = (
    checkpoint_files.SURFACE,
    checkpoint_layout.SURFACE,
    class_path.SURFACE,
    context_stop.SURFACE,
    debug_lines.SURFACE,
    error_texts.SURFACE,
    executors.SURFACE,
    hadoop_files.SURFACE,
    java_functions.SURFACE,
    java_process.SURFACE,
    kept_timers.SURFACE,
    batch_clock.SURFACE,
    local_properties.SURFACE,
    observed_metrics.SURFACE,
    query_hold.SURFACE,
    query_plan.SURFACE,
    query_progress.SURFACE,
    read_limits.SURFACE,
    source_environment.SURFACE,
    worker_start.SOURCES,
    state_rewrite.SURFACE,
    state_rows.SURFACE,
    stop_at_batch.SURFACE,
    thread_dump.SURFACE,
    type_verifiers.SURFACE,
    unsupported_operations.SURFACE,
    whole_input.SURFACE,
    worker_start.SURFACE,
)

log = logs.get_logger()


def look(spark: SparkSession) -> list[Probe]:
    """For each surface, whether a session's Spark has the surface, and whether the surface works as expected."""
    return [each.probe(spark) for each in SURFACES]


def insist(spark: SparkSession) -> None:
    """Check all surfaces, and log those that are missing or don't work. To save time, only surfaces that every job
    needs are also tried.

    Raises:
        UnsupportedSparkError: a surface that every job needs is missing or doesn't work.
    """
    found = surface.look(spark, SURFACES)
    tried = [each.surface.probe(spark) if each.works and each.surface.always else each for each in found]
    lost = [probe for probe in tried if not probe.works]
    for probe in lost:
        log.warning("a private surface of Spark is missing", surface=probe.surface.name, why=probe.summary)
    for probe in lost:
        if probe.surface.always:
            raise probe.refusal()
