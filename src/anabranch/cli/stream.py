"""``anabranch stream``: make, list, fill and read streams of the embedded log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from anabranch.cli import json_lines
from anabranch.errors import AnabranchError, UsageError
from anabranch.systems.embedded import Appender, Log, read_slice

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Make, list, fill and read streams.")

Name = Annotated[str, typer.Argument(help="The stream.")]
Config = Annotated[Path | None, typer.Option(help="The configuration file (default: anabranch.toml).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_POLL_SECONDS = 0.1


@app.command()
def create(
    name: Name,
    partitions: Annotated[int, typer.Option(help="How many partitions.", min=1)],
    config: Config = None,
) -> None:
    """Make a stream."""
    _log(config).create(name, partitions)
    typer.echo(f"{name}: {_count(partitions, 'partition')}", err=True)


@app.command("list")
def list_(config: Config = None, json: Json = False) -> None:
    """List the streams with their partition counts."""
    log = _log(config)
    infos = [log.describe(name) for name in log.streams()]
    if json:
        _print_json([{"name": info.name, "partitions": info.partitions} for info in infos])
        return
    for info in infos:
        typer.echo(f"{info.name}\t{info.partitions}")


@app.command()
def describe(name: Name, config: Config = None, json: Json = False) -> None:
    """Show a stream's partitions and how many records each holds."""
    log = _log(config)
    info = log.describe(name)
    ends = {number: tail.end for number, tail in log.ends(name).items()}
    if json:
        partitions = [{"partition": number, "start": 0, "end": end} for number, end in ends.items()]
        _print_json({"name": info.name, "id": info.id, "partitions": partitions})
        return
    typer.echo(f"{name}: {_count(len(ends), 'partition')}, {_count(sum(ends.values()), 'record')}")
    for number, end in ends.items():
        typer.echo(f"{number}\t{end}")


@app.command()
def put(
    name: Name,
    key: Annotated[str | None, typer.Option(help="The field that makes the message key.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read this file instead of the standard input.")] = None,
    config: Config = None,
) -> None:
    """Add JSON lines from the standard input, or a file, to a stream."""
    log = _log(config)
    log.describe(name)
    written, line = 0, 1
    with _opened(file) as source, Appender(log, name) as appender:
        for lines in json_lines.batches(source.fileno()):
            batch, fault = json_lines.records(lines, line, key, json_lines.now())
            written += appender.append(batch)
            line += len(lines)
            if fault is not None:
                raise AnabranchError(f"{fault.what}; {_count(written, 'record')} written", fault.cure)
    typer.echo(f"{name}: {_count(written, 'record')} written", err=True)


@app.command()
def cat(
    name: Name,
    start: Annotated[str, typer.Option("--from", help="earliest, latest or an offset.")] = "earliest",
    partition: Annotated[int | None, typer.Option(help="This partition only.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    most: Annotated[int | None, typer.Option("--max", help="Stop after so many records.", min=0)] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Print the key and a tab before each value.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Print the records of a stream: their values, a line each."""
    if keys and json:
        raise UsageError("--keys and --json exclude each other", "--json prints the key, too")
    log = _log(config)
    found = _records(log, name, partition, start, follow)
    try:
        for number, offset, batch in _first(found, most):
            lines = json_lines.text(batch, number, offset) if json else json_lines.values(batch, keys=keys)
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
            if follow:
                sys.stdout.buffer.flush()
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader, such as head, has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _records(
    log: Log, name: str, partition: int | None, start: str, follow: bool
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """(partition, offset of the first record, records), up to what was there at the start, or for ever."""
    wanted = None if partition is None else [partition]
    tails = log.ends(name, wanted)
    positions = {number: _position(start, tail.end) for number, tail in tails.items()}
    while True:
        for number, tail in tails.items():
            offset = positions.setdefault(number, 0)
            if tail.end <= offset:
                continue
            for piece in log.slices(name, number, offset, tail.end):
                for batch in read_slice(piece):
                    yield number, offset, batch
                    offset += batch.num_rows
            positions[number] = offset
        if not follow:
            return
        time.sleep(_POLL_SECONDS)
        tails = log.ends(name, wanted, tails)


def _position(start: str, end: int) -> int:
    if start == "earliest":
        return 0
    if start == "latest":
        return end
    if start.isdecimal():
        return int(start)
    raise UsageError(f"--from {start} is not a place in a stream", "write earliest, latest or an offset, as in 0")


def _first(
    found: Iterable[tuple[int, int, pa.RecordBatch]], most: int | None
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    if most is None:
        yield from found
        return
    if most == 0:
        return
    for number, offset, batch in found:
        yield number, offset, batch.slice(0, most)
        most -= min(most, batch.num_rows)
        if not most:
            return


def _opened(file: Path | None) -> Any:
    if file is None:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(file, "rb")
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}", "name a file of JSON lines") from error


def _log(path: Path | None) -> Log:
    from anabranch import config

    return Log(config.load(path).systems.embedded.root)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _print_json(value: Any) -> None:
    typer.echo(msgspec.json.encode(value).decode())
