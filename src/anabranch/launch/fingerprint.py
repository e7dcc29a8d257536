"""Computes the fingerprint of a job: the operators, streams and settings that must be the same as before for the job to
continue from its positions and state. The fingerprint also contains the inputs' partition counts, although these are
allowed to change.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from anabranch.config import Settings
from anabranch.errors import NotFoundError
from anabranch.formats import settling
from anabranch.model.graph import Graph
from anabranch.planning import fingerprints, patterns, stages
from anabranch.planning.plan import Plan
from anabranch.systems.systems import Systems

__all__ = ["of"]


def of(graph: Graph, plan: Plan, settings: Settings, known: Collection[str] | None = None) -> dict[str, str]:
    """The fingerprint of a job: a string for each name, such as ``operator by_route``, ``partitions of kafka/flights``
    or ``factor``. The fingerprint doesn't depend on line numbers or on the bodies of functions. The string for an
    output that doesn't exist is ''.

    Args:
        known: the streams and tables that the job wrote before. The tables among them must exist. Other tables of the
            job needn't exist. If ``known`` is None, all tables of the job must exist.

    Raises:
        NotFoundError: a table that must exist doesn't exist, or has lost its id.
    """
    operators = {f"operator {node.name}": _digest([node.kind, list(node.inputs), node.args]) for node in graph.nodes}
    job = settings.job
    ssps = {ssp.whole for stage in plan.model.stages for t in stage.tasks for ssp in (*t.ssps, *t.broadcast)}
    partitions = Counter(f"{ssp.system}/{ssp.stream}" for ssp in ssps)
    matched = patterns.of_model(plan.model)
    come = {f"{each.system}/{stream}" for each in matched.values() for stream in each.streams}
    counts = {
        f"{fingerprints.PARTITIONS}{stream}": str(count) for stream, count in partitions.items() if stream not in come
    }
    systems = Systems(settings, graph.job)
    declared = settling.declared(settings, {*stages.read_streams(graph), *stages.written_streams(graph)})
    written = [(str(o.system), o.stream) for o in plan.outputs if o.stream is not None]
    in_systems = [(name, stream) for name, stream in written if not systems.is_table(stream)]
    absent = systems.absent(in_systems)
    outputs = {
        f"{fingerprints.OUTPUT}{stream}": "" if (name, stream) in absent else systems.named(name).id(stream)
        for name, stream in in_systems
    }
    tables = [stream for _, stream in written if systems.is_table(stream)]
    return {
        **operators,
        **counts,
        **{f"{fingerprints.PATTERN}{name}": f"{each.pattern} in {each.system}" for name, each in matched.items()},
        **outputs,
        **{f"{fingerprints.TABLE}{table}": _id(systems, table, known) for table in tables},
        **{
            f"{fingerprints.DELIVERY}{stream}": "at-least-once"
            for _, stream in written
            if stream in settings.at_least_once
        },
        **{f"{fingerprints.FORMAT}{stream}": told for stream, told in declared.items()},
        **({"trigger": job.trigger} if job.trigger != "micro-batch" else {}),
        "factor": str(job.factor),
        "grouper": job.grouper,
        "containers": str(job.containers),
        **({"lanes": str(job.lanes)} if job.lanes > 1 else {}),
        "state_partitions": str(job.state_partitions),
        "watermark_scope": job.watermark_scope,
    }


def _id(systems: Systems, table: str, known: Collection[str] | None) -> str:
    try:
        return systems.table(table).id()
    except NotFoundError:
        if known is None or table in known:
            raise
        return ""


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:12]
