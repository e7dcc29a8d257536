"""What result rows take over from the rows that a function was given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException

from anabranch.container import error_text
from anabranch.errors import OperatorError
from anabranch.spark.functions import isolation, wrap
from anabranch.spark.functions.calling import Outcome, UserFunction
from anabranch.spark.functions.wrap import CallSettings
from anabranch.spark.values import meta_column

ORIGIN = pa.struct(
    {
        "task": pa.int32(),
        "source": pa.int32(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "headers": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
        "bucket": pa.int32(),
    }
)


def origin(offset: int) -> dict[str, Any]:
    at = datetime(2026, 1, 1, 0, 0, offset, tzinfo=UTC)
    record = {"task": 0, "source": 0, "partition": 3, "offset": offset, "key": b"k", "bucket": None}
    return {**record, "headers": f"h{offset}", "timestamp": at}


def given(rows: int) -> pa.RecordBatch:
    columns = [pa.array(range(rows), pa.int64()), pa.array([origin(n) for n in range(rows)], ORIGIN)]
    return pa.RecordBatch.from_arrays(columns, ["n", meta_column.NAME])


def worked(function: Callable[[pa.RecordBatch], Any], rows: int) -> list[dict[str, Any]]:
    user = UserFunction("map_arrow", function, pa.schema({"n": pa.int64()}), "")
    run = wrap.wrap(user, "map_arrow 'f'", CallSettings())
    found: list[dict[str, Any]] = pa.Table.from_batches(run(iter([given(rows)]))).to_pylist()
    return found


def test_as_many_rows_have_what_the_rows_at_their_places_had() -> None:
    assert [row[meta_column.NAME] for row in worked(lambda rows: rows, 3)] == [origin(n) for n in range(3)]


@pytest.mark.parametrize(
    "function", [lambda rows: rows.slice(1, 2), lambda rows: pa.Table.from_batches([rows, rows])], ids=["fewer", "more"]
)
def test_fewer_or_more_rows_have_the_headers_and_timestamps_of_no_record(function: Any) -> None:
    for row in worked(function, 3):
        its = row[meta_column.NAME]
        assert (its["headers"], its["timestamp"]) == (None, None), "they would be another record's"
        assert (its["partition"], its["offset"] < 0) == (3, True)


def test_rows_that_only_some_of_the_calls_leave_unknown_have_no_record_and_the_others_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many rows come out as went in: one part of them has one more, another part one fewer."""

    async def calls(rows: pa.RecordBatch, begin: Any, fails: bool = False) -> Outcome:
        return Outcome(pa.Table.from_batches([rows]), np.arange(4), guessed=np.array([False, True, True, False]))

    monkeypatch.setattr(isolation, "is_needed", lambda: True)
    monkeypatch.setattr(isolation, "Host", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(isolation, "called", lambda *_: calls)
    known = [row[meta_column.NAME]["offset"] >= 0 for row in worked(lambda rows: rows, 4)]
    assert known == [True, False, False, True]


class Lines:
    def __repr__(self) -> str:
        return "id\n\n5"


def raises(error: Exception, *notes: str) -> Callable[[pa.RecordBatch], Any]:
    def function(rows: pa.RecordBatch) -> Any:
        for note in notes:
            error.add_note(note)
        raise error

    return function


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raises(ValueError("bad row\n\nid=5")), "raised ValueError: bad row | id=5 at "),
        (raises(ValueError("bad row"), "id\n5"), "raised ValueError: bad row (id | 5) at "),
        (lambda rows: Lines(), ": it returned id | 5, not a pyarrow.RecordBatch"),
    ],
    ids=["text", "note", "result"],
)
def test_an_error_of_several_lines_does_not_hide_the_offsets(function: Any, said: str) -> None:
    with pytest.raises(OperatorError) as raised:
        worked(function, 3)
    failed = error_text.failure(RuntimeError(f"anabranch.errors.OperatorError: {raised.value}\n\n\tat a.b(C.java:1)"))
    assert said in failed.what
    assert failed.what.endswith(", on offsets 0 to 2 of partition 3")
    assert failed.reasons == (wrap.CURE,)


IN_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/home/me/job/job.py", line 12, in ratio
    return 1 / row["n"]
ZeroDivisionError: division by zero
"""


def saving(file: str) -> BaseException:
    """An exception of a database, as a function in this file raises it."""
    scope: dict[str, Any] = {}
    text = "def save():\n    raise ValueError('duplicate key\\nDETAIL: (id)=(5)') from KeyError(5)\n"
    exec(compile(text, file, "exec"), scope)
    with pytest.raises(ValueError, match="duplicate") as raised:
        scope["save"]()
    return raised.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PythonException(IN_WORKER), "ZeroDivisionError: division by zero at job.py:12 in ratio"),
        (
            saving("/home/me/job/job.py"),
            "ValueError: duplicate key | DETAIL: (id)=(5) at job.py:2 in save; caused by KeyError: 5",
        ),
    ],
    ids=["worker", "lines"],
)
def test_the_error_of_a_foreach_batch_names_the_cause_and_the_line(error: BaseException, said: str) -> None:
    made = wrap.of_batch(error, "foreach_batch 'f' (job.py:9)", 5, "/home/me/job")
    assert made.what == f"foreach_batch 'f' (job.py:9) raised {said}, on batch 5"
    assert made.cure == wrap.CURE
