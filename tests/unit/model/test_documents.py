"""The model's JSON: round trips, fields nobody knows, fields that are missing, versions nobody knows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import UnsupportedFormatError
from anabranch.model.document import Document, Unknown, decode, encode
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import ContainerModel, JobModel, Matched, StageModel
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

WORDS = st.sampled_from(["extra", "version", "a.b-1", "keyBucket"]) | st.text(max_size=8)
STREAMS = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(st.sampled_from(["extra", "later", "newThing"]), JSON, max_size=2).map(
    lambda found: Unknown(found) or msgspec.UNSET
)
NUMBERS = st.integers(0, 2**40)


def few(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=2).map(tuple)


def texts(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(WORDS, values, max_size=2)


SSPS = st.builds(
    SSP, system=STREAMS, stream=STREAMS, partition=NUMBERS, key_bucket=st.integers(-1, 1023), extra=UNKNOWN
)
TASKS = st.builds(Task, name=WORDS, index=NUMBERS, stage=WORDS, ssps=few(SSPS), broadcast=few(SSPS), extra=UNKNOWN)
POSITIONS = st.builds(Position, ssp=SSPS, offset=NUMBERS, parts=texts(NUMBERS), extra=UNKNOWN)
LANES = st.builds(
    Lane,
    id=WORDS,
    job=WORDS,
    deployment=NUMBERS,
    stage=WORDS,
    group=WORDS,
    seat=WORDS,
    tasks=few(WORDS),
    ssps=few(SSPS),
    broadcast=few(SSPS),
    matched=texts(few(WORDS)),
    base=texts(SSPS),
    slots=few(WORDS),
    predecessors=few(WORDS),
    starting=few(POSITIONS),
    state=st.sampled_from(LaneState),
    final=few(POSITIONS),
    watermark=st.none() | NUMBERS,
    error=st.none() | WORDS,
    extra=UNKNOWN,
)
MATCHED = st.builds(Matched, system=WORDS, pattern=WORDS, streams=few(WORDS), extra=UNKNOWN)
STAGES = st.builds(
    StageModel,
    stage=WORDS,
    key=few(WORDS),
    stateful=st.booleans(),
    grouper=WORDS,
    inputs=few(WORDS),
    tasks=few(TASKS),
    base=texts(SSPS),
    patterns=texts(MATCHED),
    extra=UNKNOWN,
)
CONTAINERS = st.builds(ContainerModel, seat=WORDS, tasks=texts(few(WORDS)), rack=st.none() | WORDS, extra=UNKNOWN)
JOB_MODELS = st.builds(
    JobModel,
    job=WORDS,
    run_id=NUMBERS,
    generation=NUMBERS,
    factor=NUMBERS,
    stages=few(STAGES),
    containers=few(CONTAINERS),
    extra=UNKNOWN,
)
NODES = st.builds(
    Node,
    id=NUMBERS,
    kind=WORDS,
    name=WORDS,
    inputs=few(NUMBERS),
    args=texts(JSON),
    named=st.booleans(),
    extra=UNKNOWN,
)
GRAPHS = st.builds(Graph, job=WORDS, nodes=few(NODES), extra=UNKNOWN)


@given(LANES | JOB_MODELS | GRAPHS)
def test_a_document_is_read_as_it_was_written(document: Document) -> None:
    raw = encode(document)
    again = decode(raw, type(document))
    assert again == document
    assert encode(again) == raw


def test_names_in_json() -> None:
    ssp = SSP(system="kafka", stream="flights", partition=3, key_bucket=1)
    assert json.loads(encode(ssp)) == {
        "version": 1,
        "system": "kafka",
        "stream": "flights",
        "partition": 3,
        "keyBucket": 1,
    }
    model = JobModel(job="delays", run_id=2, generation=5, factor=1, stages=(), containers=())
    assert json.loads(encode(model))["runId"] == 2


def test_an_ssp_without_a_bucket_is_whole() -> None:
    assert decode('{"system": "kafka", "stream": "flights", "partition": 3}', SSP) == SSP(
        system="kafka", stream="flights", partition=3, key_bucket=-1
    )


def test_unknown_fields_are_kept_at_every_level() -> None:
    ssp = {"system": "kafka", "stream": "flights", "partition": 3, "keyBucket": -1, "leader": {"extra": 1}}
    task = {"name": "Partition_3", "index": 3, "stage": "main", "ssps": [ssp], "broadcast": [], "weight": 2}
    stage = {
        "stage": "main",
        "key": [],
        "stateful": True,
        "grouper": "partition",
        "inputs": ["flights"],
        "tasks": [task],
        "base": {"kafka/flights/7": ssp},
        "patterns": {"in": {"system": "kafka", "pattern": "f.*", "streams": ["flights"], "since": 4}},
        "extra": "a field of that name",
    }
    model = {
        "version": 1,
        "job": "delays",
        "runId": 1,
        "generation": 1,
        "factor": 1,
        "stages": [stage],
        "containers": [{"seat": "0", "tasks": {"extra": ["Partition_3"]}, "rack": None, "cost": 0.5}],
        "lanes": 4,
        "request": "r-1",
        "undoes": 4,
        "rewound": ["0-aa"],
        "expands": ["embedded/flights"],
        "replaces": 3,
        "again": 1,
        "later": [1, {"a": None}],
    }
    assert json.loads(encode(decode(json.dumps(model), JobModel))) == model


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"version": 2, "job": "delays", "nodes": []}', "format version 2"),
        (b'{"version": "1", "job": "delays", "nodes": []}', "format version 1"),
        (b'{"version": 1, "nodes": []}', "job"),
        (b'{"version": 1, "job": "delays", "nodes": [{"id": "x"}]}', "nodes"),
        (b"[1]", "not a Graph"),
        (b"null", "not a Graph"),
        (b"{", "not a Graph"),
        (b"", "not a Graph"),
    ],
)
def test_what_cannot_be_understood_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=why) as caught:
        decode(raw, Graph)
    assert "nothing was changed" in caught.value.cure


@given(
    SSPS.map(lambda ssp: SSP(system=ssp.system, stream=ssp.stream, partition=ssp.partition, key_bucket=ssp.key_bucket))
)
def test_an_ssp_is_read_as_it_is_shown(ssp: SSP) -> None:
    assert SSP.parse(str(ssp)) == ssp
    assert SSP.parse(str(ssp.whole)) == ssp.whole


_THREADS_AT_FIRST_USE = """
import sys, threading
from anabranch.model.document import Document, decode

def kind(name, **fields):
    return type(name, (Document,), {"__annotations__": fields, "__module__": "__main__", **dict.fromkeys(fields)})

def read(raw):
    begin.wait()
    assert decode(raw, Outer).middle.inner[0].n == 1

sys.setswitchinterval(1e-6)
for number in range(30):
    Inner = kind("Inner", n="int", **{f"field{number}": "dict[str, int] | None" for number in range(30)})
    Middle = kind("Middle", inner="tuple[Inner, ...]")  # this one would be seen half-done
    Outer = kind("Outer", middle="Middle")
    begin = threading.Barrier(4)
    known, unknown = '{"middle": {"inner": [{"n": 1}]}}', '{"middle": {"inner": [{"n": 1, "later": 2}]}}'
    threads = [threading.Thread(target=read, args=(each,)) for each in (known, unknown, known, unknown)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_threads_may_read_the_first_of_a_kind_at_once() -> None:
    """In a process of its own: msgspec crashes there where they meet."""
    done = subprocess.run([sys.executable, "-c", _THREADS_AT_FIRST_USE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
