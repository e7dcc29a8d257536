"""Recognizes batches that were planned after an input had lost records that the lane had already read."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.errors import StateError
from anabranch.model.lane import Lane
from anabranch.spark.query.planned_batch import Batch

__all__ = ["of_batch", "remedy"]


def of_batch(batch: Batch, lane: Lane, starting: Mapping[str, int]) -> StateError | None:
    """The error for a batch that ends before it begins in one of the lane's partitions. None if there is no such
    partition. ``starting`` has the lane's start offsets, by whole SSP in text form.

    Spark's Kafka connector plans such a batch if a partition ends before the lane's position, for example after an
    unclean leader election. It then refuses to run the batch or, if lost records may be skipped, silently moves the
    lane's position back.
    """
    for ssp in (*lane.ssps, *lane.broadcast):
        begin = batch.begins.get(ssp.stream, {}).get(ssp.partition, starting.get(str(ssp.whole), 0))
        end = batch.ends.get(ssp.stream, {}).get(ssp.partition, begin)
        if end < begin:
            return StateError(
                f"{ssp.whole} ended at offset {end} when batch {batch.number} was planned, but lane {lane.id} had "
                f"already read up to {begin}",
                f"{remedy(lane.job, ssp.stream)} (if there is nothing to accept, because the stream has grown since, "
                "start the job)",
            )
    return None


def remedy(job: str, stream: str) -> str:
    """What to do about a stream that has lost records that a job had already read."""
    return (
        "restore the stream, which has lost records that were processed; or stop the job, and let it continue with "
        f"the stream as it is: anabranch accept {job} {stream}"
    )
