"""Prepares another version of a job, which takes over the positions and the state of the stored version."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.config import Settings
from anabranch.coordinator.api.operations import Operations
from anabranch.errors import ConflictError
from anabranch.formats import Format
from anabranch.launch import outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.preparation import Prepared
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages

__all__ = ["Resolve", "planned", "ready"]

Resolve = Callable[[JobFile, Mapping[str, Format]], Mapping[int, Any]]
"""Determines the schema of each operator's result from the formats of the job's streams."""


def planned(
    asked: Operations, file: JobFile, settings: Settings, formats: Mapping[str, Format], resolve: Resolve
) -> Prepared:
    """The new version of a job, planned with the job's present factor and number of containers. Creates nothing:
    streams and tables that only the new version writes needn't exist yet.

    Args:
        asked: the coordinator, or its client.
        formats: the formats of the present version's streams.

    Raises:
        StateError: an output stream is gone, or contains records of a lane that the store doesn't know.
        ConflictError: an earlier version of the job already used one of the new intermediate streams.
    """
    name = file.graph.job
    present = asked.model(name)
    own = {"factor": present.factor, "containers": len(present.containers)}
    as_it_is = settings.model_copy(update={"job": settings.job.model_copy(update=own)})
    plan = preparation.plan(file, as_it_is, present, replaces=True)
    known, now = asked.known_lanes(name).values(), [each.lane for each in asked.status(name).lanes]
    outputs.check_writers(plan, settings, {lane.id for lane in known})
    written = outputs.written_by(known)
    read = {ssp.stream for lane in known for ssp in lane.ssps}
    has = outputs.written_by(now)
    _check_between(_between(file), (written & read) - has)
    outputs.check(plan, settings, has)
    kept = preparation.formats(file, settings, formats)
    return Prepared(file, as_it_is, plan, resolve(file, kept), kept, has)


def ready(prepared: Prepared, settings: Settings) -> Prepared:
    """Make a planned version ready to be deployed: register its schemas, and create its new streams and tables."""
    registered = preparation.formats(prepared.file, settings, prepared.formats, register=True)
    prepared = dataclasses.replace(prepared, formats=registered, known=None)
    outputs.create(prepared.plan, settings)
    outputs.prepare_tables(prepared)
    return prepared


def _between(file: JobFile) -> dict[str, str]:
    """The job's intermediate streams, each with the name of the ``partition_by`` that writes it."""
    return {stages.stream_of(file.graph, node): node.name for node in file.graph.nodes if is_boundary(node)}


def _check_between(wanted: dict[str, str], former: set[str]) -> None:
    """Raises ConflictError if an earlier version of the job used one of the new intermediate streams: the stream's old
    records would be processed again.
    """
    for stream, name in wanted.items():
        if stream in former:
            raise ConflictError(
                f"the job had a partition_by {name!r} before, and its stream {stream!r} holds what was processed then",
                f"give it another name: partition_by(..., name={name + '-2'!r})",
            )
