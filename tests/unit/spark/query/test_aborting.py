"""What is told of a writer that fails, and then can't be aborted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.errors import ConflictError
from anabranch.spark.query import aborting, sink


class Writer:
    """It takes nothing."""

    def __init__(self, error: BaseException | None) -> None:
        self.aborted = 0
        self._error = error

    def close(self) -> Any:
        raise ConflictError("the table doesn't take a row", "fix the job")

    def abort(self) -> None:
        self.aborted += 1
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("error", [None, OSError("Read-only file system")])
def test_the_error_of_the_writer_is_raised(error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer(error)
    with pytest.raises(ConflictError, match="doesn't take a row"), aborting.on_error(writer):
        writer.close()
    assert writer.aborted == 1
    assert ("Read-only file system" in capsys.readouterr().err) == (error is not None)


def test_a_writer_that_succeeds_is_not_aborted() -> None:
    writer = Writer(None)
    with aborting.on_error(writer):
        pass
    assert not writer.aborted


def test_a_worker_raises_the_error_of_its_output() -> None:
    writer = Writer(OSError("Read-only file system"))
    frame: Any = SimpleNamespace(mapInArrow=lambda function, _: function)
    output: Any = SimpleNamespace(writer=lambda task, batch: writer)
    run: Any = sink.writing(frame, output, {}, 3)
    with pytest.raises(ConflictError, match="doesn't take a row"):
        list(run(iter([])))
    assert writer.aborted == 1
