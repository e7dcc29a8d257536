"""Adds JSON lines to a stream. If not all lines can be added, says how many were added."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import IO, Any

import typer

from anabranch import logs
from anabranch.cli import json_lines, output
from anabranch.errors import AnabranchError
from anabranch.systems.contract import Appender, PartlyWrittenError, System

__all__ = ["put_lines"]

log = logs.get_logger()


def put_lines(source: IO[bytes], system: System, stream: str, key: str | None) -> int:
    """Add the lines of ``source`` to a stream, and return the number of records. ``key`` is the field that becomes the
    message key; see :func:`json_lines.records`.

    After Ctrl-C, a batch that is being written is completed. The number of records, and the line from which to
    continue, are then printed, and KeyboardInterrupt is raised. A second Ctrl-C raises KeyboardInterrupt at once,
    without completing the batch. If Ctrl-C comes while the appender closes, only the closing ends early.

    Raises:
        AnabranchError: a line is invalid, ``source`` can't be read, or the records can't be written. The message
            contains the number of records that were written, and the line from which to continue.
    """
    appender = system.appender(stream)
    written, line, rows, fault, at_once = 0, 1, 0, None, False
    with _Interrupts() as interrupts:
        try:
            for lines in json_lines.batches(source.fileno()):
                batch, fault = json_lines.records(lines, line, key, json_lines.now())
                interrupts.writing, rows = True, batch.num_rows
                written += appender.append(batch)
                if fault is not None:
                    break
                line += len(lines)
                interrupts.done()
        except KeyboardInterrupt:
            at_once = interrupts.writing
            rest = _rest(line, 0, rows if at_once else 0)
            typer.echo(f"{stream}: {_count(written)}, of all lines before line {line}; to go on, {rest}", err=True)
            raise
        except (AnabranchError, OSError) as error:
            raise _stopped(_explained(error, interrupts.writing), written, line) from error
        finally:
            if not at_once:
                with interrupts.ending_only_this():
                    _close(appender, stream)
    if fault is not None:
        raise AnabranchError(f"{fault.what}; {_count(written)}", fault.cure)
    return written


class _Interrupts:
    """Inside ``with``, the first Ctrl-C raises KeyboardInterrupt. But while ``writing`` is true, only the second Ctrl-C
    raises KeyboardInterrupt. :meth:`done` ends the writing. If there was a Ctrl-C during the writing, :meth:`done`
    raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self.writing = False
        self.pending = False
        self._handles = False

    def __enter__(self) -> _Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        self._handles = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._handles:
            signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def ending_only_this(self) -> Iterator[None]:
        """Inside ``with``, Ctrl-C ends the block at once, but raises nothing after it."""
        with contextlib.suppress(KeyboardInterrupt):
            self.writing = False
            yield
        self.writing, self.pending = True, False

    def done(self) -> None:
        self.writing = False
        if self.pending:
            raise KeyboardInterrupt

    def _take(self, *_: Any) -> None:
        if self.pending or not self.writing:
            raise KeyboardInterrupt
        self.pending = True


def _close(appender: Appender, stream: str) -> None:
    """Close an appender. Its records were written before, so an error or a Ctrl-C is only logged."""
    try:
        appender.close()
    except (AnabranchError, OSError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted"
        log.warning("records were added, but not the mark that their writer is gone", stream=stream, error=why)


def _explained(error: AnabranchError | OSError, writing: bool) -> AnabranchError:
    if isinstance(error, AnabranchError):
        return error
    why = error.strerror or str(error)
    if not writing:
        return AnabranchError(f"the input can't be read: {why}", "see what is wrong with it")
    return AnabranchError(f"{error.filename}: {why}" if error.filename else why, "see what is wrong with that disk")


def _stopped(error: AnabranchError, written: int, line: int) -> AnabranchError:
    """The error for a ``put`` that failed at or after the line with the number ``line``. ``written`` is the number of
    records that were written from the lines before this line.
    """
    part, unsure = (error.published, error.unsure) if isinstance(error, PartlyWrittenError) else (0, 0)
    rest = f"then {_rest(line, part, unsure)}"
    return AnabranchError(
        f"{_count(written + part)}, of all lines before line {line}"
        f"{f' and of {part} after that' if part else ''}; {error.what}",
        f"{error.cure}; {rest}" if error.cure else rest,
    )


def _rest(line: int, part: int, unsure: int) -> str:
    """Advice on how to continue from the line with the number ``line``. ``part`` is the number of records that were
    written from this line and later lines. ``unsure`` is the number of further records that may have been written.
    """
    if not part and not unsure:
        return f"put the rest (tail -n +{line})"
    twice = f"{output.count(part + unsure, 'record')} or so {'may' if unsure else 'will'} be there twice"
    return f"put the rest (tail -n +{line}): its first {twice}"


def _count(written: int) -> str:
    return f"{output.count(written, 'record')} written"
