"""User functions on Arrow batches: hides the hidden column from them and puts it back on what they return."""

from __future__ import annotations

import inspect
import itertools
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import OperatorError
from anabranch.spark import buckets, hidden, working
from anabranch.spark.buckets import Bucket, Crew, Places
from anabranch.spark.dead_letters import Rejects

Batches = Iterator[pa.RecordBatch]
Reject = Callable[[Mapping[str, Any], str, Mapping[str, Any]], None]
Rejecting = Callable[[str], Rejects]
"""Opens, in a Spark task, what takes the rows that an operator (its label) rejects."""

_Called = tuple[pa.RecordBatch, Places | None]
"""Rows that came of some rows, and the place of the one that each came of; None: one of each, in order."""

_Call = Callable[[Callable[..., Any], pa.RecordBatch, pa.Schema], Coroutine[Any, Any, _Called]]

CURE = "mend the function; the lane goes on from this batch at the next run"


def wrap(
    kind: str,
    function: Callable[..., Any],
    schema: pa.Schema,
    label: str,
    home: str,
    on_error: Rejecting | None,
    factor: int = 1,
    threads: int = 1,
    busy: Callable[[dict[Bucket, float]], None] = lambda _: None,
    file: str = "",
) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that runs an operator of the given kind.

    With a factor above 1 it works on several buckets at once; what comes of it has the order of the rows all the same.

    Args:
        schema: of the result, without the hidden column.
        label: names the operator in errors.
        home: the job's folder: traces are shortened to its files.
        on_error: what takes the messages on which the function raises; None: it fails the lane.
        factor: into how many buckets each partition is cut.
        threads: how many of them a function that isn't async works on at once, in a Spark task.
        busy: is told, by each Spark task, the seconds that it has worked on each bucket.
        file: where workers tell what they are at; see :mod:`anabranch.spark.working`.
    """
    crew = Crew(factor, threads, inspect.iscoroutinefunction(function))
    call: _Call = {"map_arrow": _map_arrow, "map": _map, "flat_map": _flat_map, "filter": _filter}[kind]

    async def work(rows: pa.RecordBatch, reject: Reject | None) -> buckets.Worked:
        origin = rows.column(hidden.NAME)
        visible = rows.drop_columns([hidden.NAME])
        try:
            with working.on(file, label, origin, factor):
                result, indexes = await call(function, visible, schema)
        except Exception as error:
            if reject is None:
                raise _explained(error, label, origin, home) from None
            result, indexes = await _one_by_one(call, function, visible, schema, origin, reject, home)
        if kind == "map_arrow" and result.num_rows != rows.num_rows:
            origin = _of_no_record(origin)
        if indexes is None:
            indexes = np.arange(rows.num_rows)
        else:
            origin = origin.take(pa.array(indexes))
        whole = schema.append(pa.field(hidden.NAME, origin.type))
        return pa.RecordBatch.from_arrays([*result.columns, origin], schema=whole), indexes

    def run(batches: Batches) -> Batches:
        rejects = on_error(label) if on_error is not None else None
        mine = partial(work, reject=rejects.add if rejects is not None else None)
        seconds: dict[Bucket, float] = {}
        yield from buckets.worked(itertools.chain.from_iterable(map(_of_one_partition, batches)), mine, crew, seconds)
        busy(seconds)
        if rejects is not None:
            rejects.close()

    return run


def _of_no_record(origin: pa.Array) -> pa.Array:
    """The hidden column of rows of which nobody knows which record of their partition they come from."""
    fields = [origin.field(i) for i in range(origin.type.num_fields)]
    at = origin.type.get_field_index("offset")
    offsets = fields[at].to_numpy(zero_copy_only=False)
    fields[at] = pa.array(np.where(offsets < 0, offsets, -1 - offsets), origin.type.field(at).type)
    return pa.StructArray.from_arrays(fields, fields=list(origin.type))


async def _one_by_one(
    call: _Call,
    function: Callable[..., Any],
    rows: pa.RecordBatch,
    schema: pa.Schema,
    origin: pa.Array,
    reject: Reject,
    home: str,
) -> _Called:
    """Once more, each row by itself: those on which the function raises are rejected."""
    results: list[pa.RecordBatch] = []
    indexes: list[int] = []
    for index in range(rows.num_rows):
        row = rows.slice(index, 1)
        try:
            result, _ = await call(function, row, schema)
        except Exception as error:
            told = f"{type(error).__name__}: {error}{traced(error, home)}"
            reject(origin[index].as_py(), told, row.to_pylist()[0])
        else:
            results.append(result)
            indexes += [index] * result.num_rows
    whole = pa.Table.from_batches(results, schema).combine_chunks().to_batches()
    batch = whole[0] if whole else pa.RecordBatch.from_pylist([], schema=schema)
    return batch, np.array(indexes, np.int64)


def rejecting(condition: str, error: str, label: str, on_error: Rejecting) -> Callable[[Batches], Batches]:
    """The function for ``mapInArrow`` that rejects the rows whose column ``condition`` is true and drops the column."""

    def run(batches: Batches) -> Batches:
        rejects = on_error(label)
        for batch in batches:
            wrong = batch.column(condition)
            rows = batch.drop_columns([condition])
            for index in pc.indices_nonzero(wrong).to_pylist():
                row = rows.slice(index, 1)
                origin = row.column(hidden.NAME)[0].as_py()
                rejects.add(origin, error, row.drop_columns([hidden.NAME]).to_pylist()[0])
            yield rows.filter(pc.invert(wrong))
        rejects.close()

    return run


def _of_one_partition(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """Runs of rows of one partition and task, in order. Most batches are a single one."""
    if not batch.num_rows:
        return
    origin = batch.column(hidden.NAME)
    parts = [pc.struct_field(origin, [i]) for i in range(3)]
    cuts = {0, batch.num_rows}
    for part in parts:
        changed = pc.not_equal(part.slice(1), part.slice(0, batch.num_rows - 1))
        cuts.update(int(i) + 1 for i in pc.indices_nonzero(changed).to_pylist())
    edges = sorted(cuts)
    for start, end in itertools.pairwise(edges):
        yield batch.slice(start, end - start)


async def _map_arrow(function: Callable[..., Any], rows: pa.RecordBatch, schema: pa.Schema) -> _Called:
    result = function(rows)
    if isinstance(result, pa.Table):
        combined = result.combine_chunks().to_batches()
        result = combined[0] if combined else schema.empty_table().to_batches()[0]
    if not isinstance(result, pa.RecordBatch):
        raise TypeError(f"it returned {type(result).__name__}, not a pyarrow.RecordBatch")
    missing = [name for name in schema.names if name not in result.schema.names]
    if missing:
        raise TypeError(f"its result lacks the column {missing[0]!r}; declare the result with schema=")
    cast = result.select(schema.names).cast(schema)
    return cast, np.minimum(np.arange(cast.num_rows), rows.num_rows - 1)


async def _map(function: Callable[..., Any], rows: pa.RecordBatch, schema: pa.Schema) -> _Called:
    return _rows(await _called(function, rows.to_pylist()), schema), None


async def _flat_map(function: Callable[..., Any], rows: pa.RecordBatch, schema: pa.Schema) -> _Called:
    results: list[Any] = []
    indexes: list[int] = []
    for index, several in enumerate(await _called(function, rows.to_pylist())):
        for result in several:
            results.append(result)
            indexes.append(index)
    return _rows(results, schema), np.array(indexes, np.int64)


async def _filter(function: Callable[..., Any], rows: pa.RecordBatch, schema: pa.Schema) -> _Called:
    kept = [index for index, keep in enumerate(await _called(function, rows.to_pylist())) if keep]
    return rows.select(schema.names).take(pa.array(kept, pa.int64())).cast(schema), np.array(kept, np.int64)


async def _called(function: Callable[..., Any], messages: list[dict[str, Any]]) -> list[Any]:
    results = []
    awaits = inspect.iscoroutinefunction(function)
    for index, message in enumerate(messages):
        working.at(index)
        results.append(await function(message) if awaits else function(message))
    return results


def _rows(results: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    names = set(schema.names)
    for result in results:
        if not isinstance(result, dict):
            raise TypeError(f"it returned {result!r}, not a dict of the result's columns")
        if not result.keys() <= names:
            unknown = min(result.keys() - names)
            raise TypeError(f"its result has the unknown column {unknown!r}; declare the result with schema=")
    return pa.RecordBatch.from_pylist(results, schema=schema)


def _explained(error: Exception, label: str, origin: pa.Array, home: str) -> OperatorError:
    first, last = origin[0].as_py(), origin[-1].as_py()
    on = f"on offsets {first['offset']} to {last['offset']} of partition {first['partition']}"
    return OperatorError(f"{label} raised {type(error).__name__}: {error}{traced(error, home)}, {on}", CURE)


def of_batch(error: Exception, label: str, batch: int, home: str) -> OperatorError:
    """What is told of a ``foreach_batch`` function that raised."""
    first = str(getattr(error, "java_exception", error)).strip().split("\n")[0]
    return OperatorError(f"{label} raised {type(error).__name__}: {first}{traced(error, home)}, on batch {batch}", CURE)


def traced(error: Exception, home: str) -> str:
    """Where in the job's files it was raised, if there."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(home)]
    trace = "; ".join(f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames)
    return f" at {trace}" if trace else ""
