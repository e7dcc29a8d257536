"""Runs a job on lists of rows, through the real coordinator, container and Spark, until it is idle."""

from __future__ import annotations

import difflib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from anabranch import config as configuration
from anabranch import scratch
from anabranch.api.job import Job
from anabranch.config import Settings, StreamSettings, sqlite_urls
from anabranch.errors import UsageError
from anabranch.launch import loading
from anabranch.launch.loading import JobFile
from anabranch.model.graph import Graph, Node
from anabranch.model.ssp import SSP, texts
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.protocol.commands import RewindRequest, ScaleRequest
from anabranch.spark.session.session import carry
from anabranch.spark.values import codec
from anabranch.systems.systems import Systems
from anabranch.testing import brokers, parts, session
from anabranch.testing.brokers import Names
from anabranch.testing.incarnation import Incarnation
from anabranch.testing.keys import Field
from anabranch.testing.messages import Encoder
from anabranch.testing.parts import DRAIN, EXPAND, KILL, REWIND, SCALE, Part
from anabranch.testing.result import Pending, Record, Result, decoded
from anabranch.testing.streams import EmbeddedStreams, Streams

__all__ = ["run"]

_PARTITIONS = 2
_FAILING = ("on_error", "on_null_key")
"""Settings that are ``"fail"`` in a test, unless the test or the configuration sets them. If a setting is ``"fail"``, a
record that can't be processed fails the test."""


@dataclass(frozen=True)
class _Site:
    """The job, settings and streams of a run. On a broker, the job and its streams don't have the same names as in the
    test. ``here`` replaces each of the broker's names in a string with the test's name."""

    file: JobFile
    settings: Settings
    streams: Streams
    here: Callable[[str], str] = str


def run(
    job: Job | Path | str,
    inputs: Mapping[str, Iterable[Any]],
    *,
    broker: str | None = None,
    partitions: int | Mapping[str, int] = _PARTITIONS,
    config: Path | str | None = None,
    folder: Path | str | None = None,
    timeout: float = 120,
    **settings: Any,
) -> Result:
    """Run a job on lists of rows until the job is idle, and return the rows that it wrote.

    The planner, coordinator, container, Spark, and embedded log or Kafka broker are real. Only the death of a process
    (``KILL``) is simulated. If this process has a Spark session, the first call uses it. Otherwise, the first call
    starts a small session. Later calls use the same session.

    To change, kill or drain the job at a certain point in an input, put a sentinel among the rows at this point. The
    first sentinels of all inputs take effect together, then the second sentinels, and so on. Each sentinel except
    ``BATCH`` and ``KILL`` takes effect as soon as the job has run its first batch of the preceding rows, or has
    nothing to read. The sentinels are:

    - ``BATCH``: process the preceding rows until the job is idle, then add the following rows.
    - ``KILL``: process the preceding rows until every lane that has rows to process has published its last batch, which
      is the batch that reaches the end of the lane's inputs. Before any of these batches is committed, end all lanes
      without informing the coordinator. Then start a new coordinator and a new container, which has a higher epoch.
      Both continue in the same folders, and repeat the published batches. The Python and Java processes stay alive,
      so the variables of your module keep their values. Queries, state in memory and writers are lost.
    - ``SCALE(4)``: change the job's factor as ``anabranch scale`` does. With a small ``max_rows_per_batch``, the change
      happens while some of the preceding rows are still unread.
    - ``REWIND("earliest", state="clear")``: rewind the job as ``anabranch rewind`` does.
    - ``EXPAND(8)``: give the stream 8 partitions. The following rows are distributed by the new count.
    - ``DRAIN``: drain the job as ``anabranch drain --up-to latest`` does. A new deployment reads the following rows. In
      this deployment, running aggregates continue.

    Args:
        job: a Job, or the path of a job file.
        inputs: the rows of each stream that the job reads, in order. A row is a dict, bytes, str, None, or a
            :class:`Message`. A dict is a JSON value; its columns that ``read(key=...)`` declares become the message
            key. Bytes and str are the value, unchanged. Values in the formats ``avro``, ``protobuf`` and ``confluent``
            are bytes, in inputs and in results.
        broker: ``"host:port"`` of a Kafka broker. All streams become topics with names that are unique to this run. At
            the end, these topics and the run's consumer groups are deleted. Credentials come from ``[systems.kafka]``.
            Default: all streams are in the embedded log, whatever the configuration says.
        partitions: the partition count of all inputs, or a dict of counts by name. Inputs that the dict doesn't name
            have 2 partitions.
        config: the path of an ``anabranch.toml``. Only its sections ``[job]``, ``[streams]``, ``[formats]`` and
            ``[systems.kafka]`` are used. By default, this is the file that ``anabranch run`` would use. If ``job`` is a
            Job, the default is the file in the working folder.
        folder: a new or empty folder for streams, store and lanes. Default: a temporary folder.
        timeout: the time limit for the whole run in seconds, not counting the start of Spark.
        settings: settings of ``[job]`` that override the file's settings, such as ``max_rows_per_batch=100``. Some
            settings have fixed values, whatever the file says, unless they are given here. ``state_partitions`` and
            ``attempts`` are 1. ``target_batch_seconds`` is 0, so that a run always has the same batches. Without
            ``broker``, ``trigger`` is ``"micro-batch"``. Two other settings, ``on_error`` and ``on_null_key``, are
            ``"fail"`` unless they are given here or the file sets them.

    Returns:
        The rows of every stream that the job wrote.

    Raises:
        UsageError: an input is missing, is not read by the job, or contains a row that cannot be put into the stream.
            This error is also raised if the inputs have different sentinels in the same place, or if they have a
            ``KILL`` although the trigger is ``"real-time"``. It is also raised if ``partitions`` names a stream that is
            not an input, if ``folder`` is not empty, or if the job's module has been edited since it was imported.
        JobFailedError: a lane failed; the error has the text that ``anabranch run`` would print.
        OutOfTimeError: the job was not idle before the timeout.
        AnabranchError: the broker does not answer; the Spark session has no Kafka connector; or the job does not allow
            a change that a sentinel requests. If ``anabranch run`` would refuse the job, the error of ``anabranch run``
            is raised, such as GraphError.

    Example:
        ```python
        result = run(job, {"flights": [{"tailnum": "N1", "dest": "MIA", "dep_delay": 20}, KILL]})
        assert result["late-flights"] == [{"tailnum": "N1", "dest": "MIA", "dep_delay": 20}]
        ```
    """
    file = loading.of(job) if isinstance(job, Job) else loading.load(Path(job))
    reads = _reads(file.graph)
    _check_inputs(file.graph, reads, inputs)
    counts = _counts(reads, partitions)
    cut = parts.cut(inputs)
    with _quiet(), _place(folder) as place:
        found = settings_of(job, config, settings, place, broker)
        _check_parts(cut, found)
        if broker is None:
            streams = EmbeddedStreams(found.systems.embedded.root)
            return _run(_Site(file, _embedded(found), streams), reads, counts, cut, timeout)
        names = Names.new()
        placed = brokers.settings_on(broker, found, names, file.graph)
        there = replace(file, graph=names.job(file.graph))
        with brokers.names_back(names), brokers.opened(placed, names) as streams_there:
            return _run(_Site(there, placed, streams_there, names.here), reads, counts, cut, timeout)


def _run(
    site: _Site, reads: Mapping[str, Node], counts: Mapping[str, int], cut: Iterable[Part], timeout: float
) -> Result:
    streams = site.streams
    for stream, count in counts.items():
        streams.create(stream, count)
    spark = session.shared(site.settings)
    carry(site.file.functions)
    encoders = {stream: _encoder(site, stream, node, counts[stream]) for stream, node in reads.items()}
    kills: list[tuple[Pending, ...]] = []
    deadline = time.monotonic() + timeout
    for part in cut:
        for stream, rows in part.rows.items():
            streams.put(stream, [encoders[stream].encode(number, row) for number, row in rows])
        incarnation = Incarnation(spark, site.file, site.settings, deadline)
        if part.ends == KILL:
            kills.append(incarnation.run_and_kill())
        elif isinstance(part.ends, SCALE):
            incarnation.run_and_change(ScaleRequest(factor=part.ends.factor))
        elif isinstance(part.ends, REWIND):
            incarnation.run_and_change(_rewinding(part.ends, site.settings))
        elif part.ends == DRAIN:
            incarnation.run_and_drain()
        elif isinstance(part.ends, EXPAND):
            incarnation.run_and_expand(partial(_widen, streams, part))
            for stream in part.among:
                encoders[stream] = _encoder(site, stream, reads[stream], part.ends.partitions)
        else:
            incarnation.run()
    written = _writes(site.file.graph)
    aside = [stream for stream in streams.names() if stream not in (*reads, *written)]
    return Result({site.here(each): _records(site, each) for each in (*written, *aside)}, kills)


def _rewinding(asked: REWIND, settings: Settings) -> RewindRequest:
    to = asked.to if isinstance(asked.to, str) else _by_ssp(asked.to, Systems(settings))
    given: dict[str, Any] = {"to": to, "state": asked.state}
    return RewindRequest(**given)


def _by_ssp(to: Mapping[str, Mapping[int, int]], systems: Systems) -> dict[str, int]:
    found: dict[SSP, int] = {}
    for stream, its in to.items():
        name = systems.of(stream).name
        found |= {SSP(system=name, stream=stream, partition=number): offset for number, offset in its.items()}
    return texts(found)


def _widen(streams: Streams, part: Part) -> None:
    assert isinstance(part.ends, EXPAND)
    for stream in part.among:
        streams.expand(stream, part.ends.partitions)


def _encoder(site: _Site, stream: str, node: Node, count: int) -> Encoder:
    return Encoder(stream, _key(node), count, _format(site.settings, stream))


def settings_of(
    job: Job | Path | str, config: Path | str | None, given: Mapping[str, Any], place: Path, broker: str | None
) -> Settings:
    trigger = {} if broker is not None else {"trigger": "micro-batch"}
    over: dict[str, Any] = {
        "job": {"state_partitions": 1, "attempts": 1, "target_batch_seconds": 0, **trigger, **given},
        "storage": {"root": str(place / "lanes")},
        "coordinator": {"store": sqlite_urls.url_of(place / "coordinator.db")},
        "systems": {"embedded": {"root": place / "streams"}},
    }
    beside = None if isinstance(job, Job) else Path(job)
    file = Path(config) if config is not None else None
    found = configuration.load(file, beside, over)
    unsaid = {name: "fail" for name in _FAILING if name not in found.job.model_fields_set}
    subjects = {
        stream: {"subject": f"{bound.topic or stream}-value"}  # the subject of the real topic, not of the test's topic
        for stream, bound in found.streams.items()
        if bound.format == "confluent" and bound.subject is None
    }
    settled = configuration.load(file, beside, {**over, "job": {**over["job"], **unsaid}, "streams": subjects})
    return settled.model_copy(update={"outputs": {}})  # a test must not write the user's tables: rows go to streams


def _embedded(settings: Settings) -> Settings:
    """The settings of a run in which every stream is in the embedded log."""
    fields = "format", "schema_file", "message", "subject", "task_header"
    streams = {
        stream: StreamSettings(**{name: getattr(bound, name) for name in bound.model_fields_set.intersection(fields)})
        for stream, bound in settings.streams.items()
    }
    systems = settings.systems.model_copy(update={"default": "embedded"})
    return settings.model_copy(update={"systems": systems, "streams": streams})


def _check_parts(cut: Iterable[Part], settings: Settings) -> None:
    if settings.job.trigger == "real-time" and any(part.ends == KILL for part in cut):
        raise UsageError(
            'the inputs have a KILL, which falls between the steps of a batch, and the job\'s trigger is "real-time"',
            'leave it out, or give run(..., trigger="micro-batch")',
        )


def _reads(graph: Graph) -> dict[str, Node]:
    """The streams that a job reads, including joined tables, each with an operator that reads the stream. If several
    operators read a stream, an operator that declares the key is preferred.
    """
    reads = [node for node in graph.nodes if node.kind == "read"]
    reads += [msgspec.structs.replace(node, args=node.args["of"]) for node in graph.nodes if "of" in node.args]
    return {node.args["stream"]: node for node in sorted(reads, key=lambda node: "key" in node.args)}


def _writes(graph: Graph) -> list[str]:
    """The streams that a job writes, including its intermediate streams."""
    written = [stages.stream_of(graph, n) for n in graph.nodes if n.kind == "write" or is_boundary(n)]
    return list(dict.fromkeys(written))


def _check_inputs(graph: Graph, reads: Mapping[str, Node], inputs: Mapping[str, Iterable[Any]]) -> None:
    listed = ", ".join(sorted(reads)) or "none"
    for stream, rows in inputs.items():
        if stream not in reads:
            near = difflib.get_close_matches(stream, reads, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"job {graph.job!r} doesn't read the input {stream!r}{hint}", f"give inputs for: {listed}")
        if isinstance(rows, str | bytes | Mapping):
            raise UsageError(f"the input {stream!r} is {rows!r}, not a list of rows", "put it into a list")
    for stream, node in reads.items():
        if stream not in inputs:
            raise UsageError(
                f"job {graph.job!r} reads {stream!r} ({node.where}), and the test has no input of that name",
                f"give it rows, or an empty list: inputs={{{stream!r}: []}}",
            )


def _counts(reads: Mapping[str, Node], partitions: int | Mapping[str, int]) -> dict[str, int]:
    if isinstance(partitions, int):
        return dict.fromkeys(reads, partitions)
    unknown = next((stream for stream in partitions if stream not in reads), None)
    if unknown is not None:
        raise UsageError(
            f"partitions are given for {unknown!r}, which is no input", f"the inputs: {', '.join(sorted(reads))}"
        )
    return {stream: partitions.get(stream, _PARTITIONS) for stream in reads}


def _key(node: Node) -> list[Field]:
    declared = node.args.get("key")
    return [(f.name, f.dataType.simpleString()) for f in codec.parse_schema(declared)] if declared else []


def _records(site: _Site, stream: str) -> Iterator[Record]:
    format_ = _format(site.settings, stream)
    for number, offset, record in site.streams.records(stream):
        yield Record(
            partition=number,
            offset=int(offset),
            key=record["key"],
            value=decoded(record["value"], format_, stream),
            headers=tuple(_header(site, each["key"], each["value"]) for each in record["headers"] or ()),
            timestamp=record["timestamp"],
            raw=record["value"],
        )


def _format(settings: Settings, stream: str) -> str:
    bound = settings.streams.get(stream)
    return bound.format if bound is not None else "json"


def _header(site: _Site, name: str, value: bytes | None) -> tuple[str, bytes | None]:
    if value is None or not name.startswith("anabranch."):
        return name, value
    return name, site.here(value.decode()).encode()


@contextmanager
def _quiet() -> Iterator[None]:
    """A context in which structlog shows only warnings and errors, unless the user has configured it. Afterwards, the
    user's own loggers work as before.
    """
    if structlog.is_configured():
        yield
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    configured = structlog.get_config()
    try:
        yield
    finally:
        if structlog.get_config() == configured:  # a function of the job may have configured it meanwhile
            structlog.reset_defaults()


@contextmanager
def _place(folder: Path | str | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(dir=scratch.folder("testing")) as made:
            yield Path(made)
        return
    place = Path(folder).resolve()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise UsageError(f"{place} isn't empty", "let folder= name a new one")
    yield place
