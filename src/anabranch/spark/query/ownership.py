"""Makes SQL conditions that are true for the records, or for the rows from state, that belong to a lane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.planning.ownership.buckets import NEVER, floors, owned
from anabranch.spark.values import meta_column

__all__ = ["of_key", "of_keys", "of_records", "of_state", "of_tasks", "taken"]


def of_records(lane: Lane, ssps: Iterable[SSP], key: Column) -> Column | None:
    """A condition that is true for a record of a stream if the lane processes the record. The lane does so if the
    record is in one of the lane's buckets, at or after the start offset of this bucket. None if the lane processes all
    records from the partitions' start offsets on.

    If a record's key is null, the offset determines the bucket.

    Args:
        ssps: the stream's SSPs that the lane reads, as whole SSPs.
        key: the bytes of a record's key.
    """
    its = floors(lane)
    begins = {ssp.partition: its[ssp] for ssp in ssps}
    if all(len(set(each)) == 1 for each in begins.values()):
        return None
    return taken(begins, of_key(key, F.col("offset")))


def taken(begins: Mapping[int, Sequence[int]], hashed: Column) -> Column:
    """A condition that is true for the records that the lane processes.

    Args:
        begins: by partition, the start offset of each bucket; NEVER for a bucket that doesn't belong to the lane.
        hashed: the hash of a record's key, from :func:`of_key`.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for partition, each in begins.items():
        alike.setdefault(tuple(each), []).append(partition)
    found: Column | None = None
    for each, partitions in alike.items():
        mine = _taken(each, hashed)
        if len(alike) == 1:
            return mine
        its = F.col("partition").isin(partitions)
        found = F.when(its, mine) if found is None else found.when(its, mine)
    return F.lit(False) if found is None else found


def of_key(key: Column, offset: Column) -> Column:
    """The hash of a record's key, for :func:`bucket`; the record's offset if the key is null."""
    return F.when(key.isNull(), offset).otherwise(F.xxhash64(key))


def bucket(hashed: Column, factor: int) -> Column:
    """The bucket for a hash, computed by the same formula as :func:`anabranch.model.hashing.bucket`."""
    return F.pmod(hashed, F.lit(factor).cast("bigint"))


def bucket_of_row(factor: int) -> Column:
    """The bucket of a row, computed from the key of its record."""
    return bucket(of_key(meta_column.field("key"), meta_column.field("offset")), factor)


def _taken(begins: Sequence[int], hashed: Column) -> Column:
    at_bucket = bucket(hashed, len(begins))
    own = {number: at for number, at in enumerate(begins) if at != NEVER}
    if len(set(own.values())) == 1:
        return at_bucket.isin(sorted(own)) if len(own) < len(begins) else F.lit(True)
    table = F.array(*[F.lit(at).cast("bigint") for at in begins])
    return F.col("offset") >= F.element_at(table, (at_bucket + 1).cast("int"))


def of_state(lane: Lane) -> Column | None:
    """A condition that is true for rows from the state of the lane's own tasks. None if the lane has no predecessors,
    because then no rows come from the state of other tasks.

    A lane with predecessors can have the state of other tasks: if a lane's tasks were divided among several successors,
    each successor has the state of all these tasks. (A lane that took over state after a drain has no
    predecessors, but can also have the state of other tasks. No rows come from this state, because all its timers have
    fired.)

    The condition is written so that Spark's optimizer can't move it in front of the stateful operator, where it would
    have a different meaning.
    """
    if not lane.predecessors:
        return None
    mine = of_keys(lane, meta_column.field("task"), meta_column.field("key"))
    return F.when(F.spark_partition_id() >= 0, mine).otherwise(F.lit(False))


def of_keys(lane: Lane, task: Column, key: Column) -> Column:
    """A condition that is true for the lane's own state. ``task`` has the number of the task at factor 1, and ``key``
    has the bytes of the key.
    """
    return of_tasks(owned(lane), lane.factor, task, F.xxhash64(key))


def of_tasks(own: Mapping[int, frozenset[int]], factor: int, task: Column, hashed: Column) -> Column:
    """A condition that is true for rows whose task and bucket are in ``own``, which has the buckets of each task."""
    alike: dict[frozenset[int], list[int]] = {}
    for number, buckets in own.items():
        alike.setdefault(buckets, []).append(number)
    at_bucket = bucket(hashed, factor)
    found = F.lit(False)
    for buckets, numbers in alike.items():
        its = task.isin(numbers)
        found = found | (its if len(buckets) == factor else its & at_bucket.isin(sorted(buckets)))
    return found
