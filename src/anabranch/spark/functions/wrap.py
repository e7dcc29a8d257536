"""Applies user functions to Arrow batches. The hidden column (see :mod:`anabranch.spark.values.meta_column`) is removed
before a function is called, and is added to the function's results.
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import OperatorError
from anabranch.spark.functions import buckets, calling, error_text, in_flight, isolation
from anabranch.spark.functions.buckets import Bucket, Crew
from anabranch.spark.functions.calling import BATCH, Evaluator, Rejection, UserFunction
from anabranch.spark.functions.isolation import Calls
from anabranch.spark.query.dead_letters import Rejects
from anabranch.spark.values import meta_column
from anabranch.task_progress import meters
from anabranch.task_progress.counts import ReportAddress
from anabranch.task_progress.meters import Meter

Batches = Iterator[pa.RecordBatch]
Rejecting = Callable[[str], Rejects]
"""A function that is called in a Spark task with an operator's label (see
:func:`anabranch.spark.operators.labels.label`). It returns the object that receives the rows that the operator rejects.
"""

CURE = "fix the function; the lane continues from this batch at the next run"


@dataclass(frozen=True)
class CallSettings:
    """How a lane's Spark tasks call functions.

    Attributes:
        on_error: returns the object that receives the messages for which a function fails. If ``on_error`` is None,
            such a message fails the lane.
        threads: the maximum number of buckets that one Spark task processes at the same time. For an async function,
            this limit applies only if the function is isolated (called in other processes).
        busy: called at the end of each successful Spark task, with the seconds that the function has worked on each
            bucket (at factor 1, on each task).
        line: the address to which workers report their progress; None if they don't report it. See
            :mod:`anabranch.task_progress.meters`.
        inputs: the streams by source number, for error messages.
    """

    on_error: Rejecting | None = None
    factor: int = 1
    threads: int = 1
    busy: Callable[[dict[Bucket, float]], None] = lambda _: None
    line: ReportAddress | None = None
    inputs: Mapping[int, str] = field(default_factory=dict)


def wrap(user: UserFunction, label: str, how: CallSettings) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that calls an operator's function. Both its input rows and its output rows have the
    hidden column.

    The results are in the order of the rows, even if several buckets are processed at the same time because the factor
    is above 1.

    Args:
        label: the operator's name in error messages.
    """

    async def work(
        rows: pa.RecordBatch, calls: Calls, meter: Meter, limit: float, rejects: Rejects | None
    ) -> buckets.Worked:
        origin = rows.column(meta_column.NAME)
        visible = rows.drop_columns([meta_column.NAME])
        with in_flight.on(meter, origin, how.factor, limit):
            result, places, rejected, guessed = await calls(visible, in_flight.at, fails=rejects is None)
        for each in rejected:
            if rejects is None:
                raise _explained(each, label, origin, how.inputs)
            rejects.add(origin_of(origin, each.place), each.error, visible.slice(each.place, 1))
        if len(places) != rows.num_rows or not np.array_equal(places, np.arange(rows.num_rows)):
            origin = origin.take(pa.array(places))
        if guessed is not None:
            origin = pc.if_else(pa.array(guessed), _of_no_record(origin), origin)
        whole = user.schema.append(pa.field(meta_column.NAME, origin.type))
        return pa.Table.from_arrays([*result.columns, origin], schema=whole), places

    def run(batches: Batches) -> Batches:
        rejects = how.on_error(label) if how.on_error is not None else None
        taken: dict[Bucket, float] = {}
        with closing(meters.meter(how.line, label)) as meter, _calling(user) as (calls, isolated):
            limit = math.inf if isolated else user.seconds
            crew = Crew(how.factor, how.threads, calling.awaits(user.function))
            if isolated:
                crew = Crew(how.factor, min(how.threads, isolation.MOST), awaits=False)
            mine = partial(work, calls=calls, meter=meter, limit=limit, rejects=rejects)
            parts = _received(itertools.chain.from_iterable(map(_of_one_partition, batches)), meter)
            yield from buckets.worked(parts, mine, crew, taken, cut=partial(_cut, meter))
        how.busy(taken)
        if rejects is not None:
            rejects.close()

    return run


@contextmanager
def _calling(user: UserFunction) -> Iterator[tuple[Calls, bool]]:
    """A context manager that provides an object for calling the function in this Spark task, and says whether the calls
    happen in other processes.
    """
    let_signals_end()
    if not isolation.is_needed():
        yield Evaluator(user), False
        return
    host = isolation.Host(isolation.service(user))
    try:
        yield isolation.called(user, host), True
    finally:
        host.close()


def let_signals_end() -> None:
    """Make SIGINT end this worker at once. By default, SIGINT raises ``KeyboardInterrupt``, which looks the same as an
    exception that user code raises. Does nothing outside the main thread, because only that thread can set signal
    handlers."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _of_no_record(origin: pa.Array) -> pa.Array:
    """The hidden column for result rows whose partition is known, but whose record isn't known. Such rows have a
    negative offset and no headers. Their timestamp is the time at which they are written.
    """
    fields = [origin.field(i) for i in range(origin.type.num_fields)]
    for name in ("headers", "timestamp"):
        place = origin.type.get_field_index(name)
        fields[place] = pa.nulls(len(origin), origin.type.field(place).type)
    at = origin.type.get_field_index("offset")
    offsets = fields[at].to_numpy(zero_copy_only=False)
    fields[at] = pa.array(np.where(offsets < 0, offsets, -1 - offsets), origin.type.field(at).type)
    return pa.StructArray.from_arrays(fields, fields=list(origin.type))


def origin_of(origins: pa.Array, place: int) -> dict[str, Any]:
    """The fields of a row's hidden column that identify the row's record. (The timestamp isn't one of them, because
    Python can't represent all timestamps.)
    """
    fields = ("source", "partition", "offset", "key")
    return {name: pc.struct_field(origins.slice(place, 1), name)[0].as_py() for name in fields}


def rejecting(fault: str, errors: Sequence[str], label: str, on_error: Rejecting) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that rejects the rows with a fault, and returns the other rows.

    Args:
        fault: the name of the column with the number of each row's fault: 0 for a row without a fault, 1 for the first
            of ``errors``, and so on. The function drops this column.
        errors: the error text for each fault.
        label: the operator's name in error messages.
        on_error: returns the object that receives the rejected rows.
    """

    def run(batches: Batches) -> Batches:
        rejects = on_error(label)
        for batch in batches:
            faults = batch.column(fault)
            rows = batch.drop_columns([fault])
            for index in pc.indices_nonzero(faults).to_pylist():
                row = rows.slice(index, 1)
                origin = origin_of(row.column(meta_column.NAME), 0)
                rejects.add(origin, errors[faults[index].as_py() - 1], row.drop_columns([meta_column.NAME]))
            yield rows.filter(pc.equal(faults, 0))
        rejects.close()

    return run


def _of_one_partition(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """The batch, divided wherever the task, source or partition changes from one row to the next. Yields nothing for a
    batch without rows."""
    if not batch.num_rows:
        return
    origin = batch.column(meta_column.NAME)
    parts = [pc.struct_field(origin, [i]) for i in range(3)]
    cuts = {0, batch.num_rows}
    for part in parts:
        changed = pc.not_equal(part.slice(1), part.slice(0, batch.num_rows - 1))
        cuts.update(int(i) + 1 for i in pc.indices_nonzero(changed).to_pylist())
    edges = sorted(cuts)
    for start, end in itertools.pairwise(edges):
        yield batch.slice(start, end - start)


def _received(parts: Iterable[pa.RecordBatch], meter: Meter) -> Batches:
    """Yields ``parts`` unchanged, and counts their rows as they arrive."""
    for rows in parts:
        origin = rows.column(meta_column.NAME)
        source, partition, offset = (in_flight.number(origin, name, -1) for name in ("source", "partition", "offset"))
        meter.receive(source, partition, rows.num_rows, offset if offset >= 0 else -1 - offset)
        yield rows


def _cut(meter: Meter, rows: pa.RecordBatch, counts: dict[int, int]) -> None:
    origin = rows.column(meta_column.NAME)
    task, source, partition = (in_flight.number(origin, name, 0) for name in ("task", "source", "partition"))
    for bucket, count in counts.items():
        meter.tally(task, source, partition, bucket).received += count


def _explained(rejection: Rejection, label: str, origin: pa.Array, inputs: Mapping[int, str]) -> OperatorError:
    told = f"{label} raised {rejection.error}" if rejection.raised else f"{label}: {rejection.error}"
    at = origin_of(origin, 0 if rejection.place == BATCH else rejection.place)
    last = origin_of(origin, len(origin) - 1)["offset"] if rejection.place == BATCH else at["offset"]
    offsets = f"offset {last}" if rejection.place != BATCH else f"offsets {at['offset']} to {last}"
    return OperatorError(f"{told}, on {offsets} of {partition_of(at, inputs)}", CURE)


def partition_of(origin: Mapping[str, Any], inputs: Mapping[int, str]) -> str:
    """The partition that a row comes from, in words. ``inputs`` are the streams by source number."""
    stream = inputs.get(origin["source"])
    return f"partition {origin['partition']}" + (f" of {stream}" if stream else "")


def of_batch(error: BaseException, label: str, batch: int, home: str) -> OperatorError:
    """The error for an exception that a ``foreach_batch`` function has raised."""
    return OperatorError(f"{label} raised {error_text.described(error, home)}, on batch {batch}", CURE)
