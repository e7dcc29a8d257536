"""Plans, jobs and lanes for tests of planning."""

from __future__ import annotations

import json
from itertools import count

from anabranch import Job
from anabranch.grouping import groupers
from anabranch.grouping.request import Request
from anabranch.model.graph import Graph
from anabranch.model.task import Task
from anabranch.operators.keys import field_names
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.planning.compatibility import Version
from anabranch.planning.plan import Surroundings


def around(grouper: str = "partition", factor: int = 1, containers: int = 1, **partitions: int) -> Surroundings:
    return Surroundings(
        factor=factor,
        containers=containers,
        grouper_name=grouper,
        grouper=groupers.named(grouper) if ":" not in grouper else lone_task,
        partitions={name.replace("_", "-"): number for name, number in partitions.items()},
        systems={},
    )


def lone_task(request: Request) -> tuple[Task, ...]:
    """A user's own grouper: everything in one task."""
    ssps = tuple(part for stream in request.grouped for ssp in stream.ssps for part in request.buckets(ssp))
    return (Task(name="everything", index=0, stage=request.stage, ssps=ssps, broadcast=request.broadcast),)


IDS = count()


def new_id() -> str:
    return f"{next(IDS):08x}"


def job(stateful: bool = True) -> Job:
    made = Job("j")
    rows = made.read("in", key="k binary", schema="n int")
    rows.where("n > 0").write("out")
    if stateful:
        rows.agg(n="count(*)", name="counted").write("counts")
    return made


SETTINGS = {"factor": "1", "containers": "1", "grouper": "partition", "state_partitions": "4", "watermark_scope": "ssp"}


def columns_of(graph: Graph) -> dict[int, list[tuple[str, str]]]:
    """The columns after each operator, as far as the jobs here need it."""
    found: dict[int, list[tuple[str, str]]] = {}
    for node in graph.nodes:
        if node.kind == "read":
            declared = ", ".join(filter(None, [node.args.get("key"), node.args.get("schema")]))
            kinds = [each.strip().split(" ", 1)[1] for each in declared.split(",") if each]
            found[node.id] = list(zip(field_names(declared), kinds, strict=True))
        elif node.kind == "agg":
            found[node.id] = [(name, "long") for name in node.args["aggregates"]]
        else:
            found[node.id] = found[node.inputs[0]]
    return found


def version(made: Job, **changed: str) -> Version:
    graph = made.graph
    schemas = {
        str(i): json.dumps({"type": "struct", "fields": [{"name": n, "type": t} for n, t in columns]})
        for i, columns in columns_of(graph).items()
    }
    own = {stages.stream_of(graph, n): n for n in graph.nodes if is_boundary(n)}
    outputs = [*own, *(n.args["stream"] for n in graph.nodes if n.kind == "write")]
    read = [n.args["stream"] for n in graph.nodes if n.kind == "read"]
    fingerprint = {f"output stream {name}": f"id of {name}" for name in outputs}
    fingerprint |= {f"partitions of embedded/{name}": "4" for name in read}
    return Version(graph, schemas, {**fingerprint, **SETTINGS, **changed})
