"""Input of a worker that only stops isn't taken for its end."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from anabranch.spark.internals.whole_input import CutShortError, whole
from tests.support.spark_java import ArrowStreamSerializer

BATCH = pa.record_batch([pa.array([1, 2], pa.int64())], names=["n"])


def streamed(count: int) -> tuple[bytes, list[int]]:
    """A stream of batches, and where each of its parts ends: the schema, each batch, the mark of the end."""
    stream = io.BytesIO()
    with pa.RecordBatchStreamWriter(stream, BATCH.schema) as writer:
        ends = [stream.tell()]
        for _ in range(count):
            writer.write_batch(BATCH)
            ends.append(stream.tell())
    return stream.getvalue(), [*ends, stream.tell()]


def read(content: bytes) -> list[int]:
    load = whole(ArrowStreamSerializer.load_stream)
    stream = io.BytesIO(content)
    found = [batch.num_rows for batch in load(ArrowStreamSerializer(), stream)]
    assert stream.read() == b"what follows"
    return found


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_whole_stream_is_read_to_its_end_and_no_further(count: int) -> None:
    content, _ = streamed(count)
    assert read(content + b"what follows") == [2] * count


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_stream_that_stops_between_two_batches_is_no_whole_one(part: int) -> None:
    """Which pyarrow takes for one."""
    content, ends = streamed(3)
    cut = content[: ends[part]]
    assert [batch.num_rows for batch in pa.ipc.open_stream(io.BytesIO(cut))] == [2] * part
    load = whole(ArrowStreamSerializer.load_stream)
    with pytest.raises(CutShortError):
        list(load(ArrowStreamSerializer(), io.BytesIO(cut)))
