"""``anabranch stream``: creates, expands, lists, fills and reads the streams of any system, and limits what they
keep."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer

from anabranch.cli import json_lines, output, progress, readers, stream_put, stream_retention
from anabranch.cli.options import Json
from anabranch.errors import NotFoundError, UsageError
from anabranch.systems.contract import Offsets, System
from anabranch.systems.retention import Retention

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Create, expand, list, fill and read streams.")

Name = Annotated[str, typer.Argument(help="The stream.")]
Age = Annotated[
    str | None,
    typer.Option("--retain-for", help='Delete records that were written longer ago than this, such as "7 days".'),
]
Size = Annotated[
    str | None,
    typer.Option(
        "--retain-bytes", help="Delete the oldest records of a partition that is larger than this, such as 10GB."
    ),
]
Config = Annotated[Path | None, typer.Option(help="The configuration file (default: anabranch.toml).")]

_POLL_SECONDS = 0.1


@app.command()
def create(
    name: Name,
    partitions: Annotated[int, typer.Option(help="How many partitions.", min=1)],
    age: Age = None,
    size: Size = None,
    config: Config = None,
) -> None:
    """Create a stream."""
    system, wanted = _system(name, config), stream_retention.parsed(age, size)
    if wanted is not None and not system.retains:
        raise system.no_retention(name)
    system.create(name, partitions)
    if wanted is not None:
        system.retain(name, wanted)
    typer.echo(f"{name}: {output.count(partitions, 'partition')}", err=True)


@app.command()
def expand(
    name: Name,
    partitions: Annotated[int, typer.Option(help="The new partition count: a multiple of the current one.", min=1)],
    config: Config = None,
) -> None:
    """Add partitions to a stream, permanently. Jobs that read it adapt on their own."""
    _system(name, config).expand(name, partitions)
    typer.echo(f"{name}: {output.count(partitions, 'partition')}", err=True)


@app.command()
def retain(
    name: Name,
    age: Age = None,
    size: Size = None,
    forever: Annotated[bool, typer.Option("--forever", help="Keep all records from now on.")] = False,
    past_readers: Annotated[
        bool,
        typer.Option(
            "--past-readers",
            help="This once, also delete records that jobs still have to read. These jobs lose the records.",
        ),
    ] = False,
    forget_reader: Annotated[
        str | None,
        typer.Option("--forget-reader", metavar="JOB", help="Stop keeping records for a job that no longer exists."),
    ] = None,
    config: Config = None,
) -> None:
    """Set how long a stream keeps its records, and delete what it no longer keeps. Without options, only delete."""
    system, wanted = _system(name, config), stream_retention.parsed(age, size)
    if forever and wanted is not None:
        raise UsageError("--forever excludes the other options", "give an age or a size, or --forever")
    if forget_reader is not None:
        readers.forget(system, name, forget_reader)
    deleted = system.retain(name, Retention() if forever else wanted, past_readers=past_readers)
    typer.echo(
        f"{name}: keeps {stream_retention.text(system.retention(name))}; {output.count(deleted, 'record')} deleted",
        err=True,
    )
    for line in readers.overdue(name, readers.of(system, name)):
        typer.echo(line, err=True)


@app.command("list")
def list_(config: Config = None, json: Json = False) -> None:
    """List the streams with their partition counts. A stream that can't be described has a question mark."""
    from anabranch import config as configuration
    from anabranch.systems.systems import Systems

    systems = Systems(configuration.load(config)).used
    found: list[tuple[str, str, int | None]] = []
    for each in systems:
        counts = {**dict.fromkeys(each.undescribed()), **each.counts()}
        found += [(each.name, name, counts[name]) for name in sorted(counts)]
    if json:
        _print_json([{"name": name, "partitions": count, "system": system} for system, name, count in found])
        return
    if not found:
        progress.say("no streams")
    for system, name, count in found:
        shown = "?" if count is None else count
        typer.echo(f"{name}\t{shown}\t{system}" if len(systems) > 1 else f"{name}\t{shown}")


@app.command()
def describe(name: Name, config: Config = None, json: Json = False) -> None:
    """Show a stream's partitions and their offsets."""
    system = _system(name, config)
    starts, kept = system.starts(name), system.retention(name)
    ends = system.ends(name, starts)
    if json:
        partitions = [{"partition": number, "start": starts[number], "end": end} for number, end in ends.items()]
        limits = None if kept is None else {"ms": kept.ms, "bytes": kept.bytes}
        found = {"name": name, "system": system.name, "id": system.id(name), "partitions": partitions}
        _print_json({**found, "retention": limits, "readers": readers.plain(readers.of(system, name))})
        return
    offsets = sum(end - starts[number] for number, end in ends.items())
    held = output.count(offsets, "record") if system.gapless else f"{output.count(offsets, 'offset')} in {system.name}"
    limited = f", keeps {stream_retention.text(kept)}" if kept not in (None, Retention()) else ""
    typer.echo(f"{name}: {output.count(len(ends), 'partition')}, {held}{limited}")
    for number, end in ends.items():
        typer.echo(f"{number}\t{end}" if not starts[number] else f"{number}\t{starts[number]} to {end}")
    for line in readers.lines(name, readers.of(system, name), time.time()):
        typer.echo(line)


@app.command()
def put(
    name: Name,
    key: Annotated[str | None, typer.Option(help="The field that becomes the message key.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read this file instead of the standard input.")] = None,
    config: Config = None,
) -> None:
    """Add JSON lines from the standard input, or a file, to a stream."""
    system = _system(name, config)
    system.partitions(name)
    with _opened(file) as source:
        written = stream_put.put_lines(source, system, name, key)
    typer.echo(f"{name}: {output.count(written, 'record')} written", err=True)


@app.command()
def cat(
    name: Name,
    start: Annotated[str, typer.Option("--from", help="earliest, latest or an offset.")] = "earliest",
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new records, until Ctrl-C.")] = False,
    most: Annotated[int | None, typer.Option("--max", help="Stop after this many records.", min=0)] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Print the key and a tab before each value.")] = False,
    json: Json = False,
    config: Config = None,
) -> None:
    """Print the values of a stream's records, one line each."""
    if keys and json:
        raise UsageError("--keys and --json exclude each other", "--json prints the key, too")
    found = _records(_system(name, config), name, partition, start, follow)
    try:
        for number, offsets, batch in _first(found, most):
            lines = json_lines.text(batch, number, offsets) if json else json_lines.values(batch, keys=keys)
            sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
            if follow:
                sys.stdout.buffer.flush()
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader, such as head, needs no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_Found = Iterator[tuple[int, Offsets, pa.RecordBatch]]
"""For each batch of records: the partition, the records' offsets, and the records."""


def _records(system: System, name: str, partition: int | None, start: str, follow: bool) -> _Found:
    """The records from ``start`` up to the present end offsets; with ``follow``, also all later ones."""
    known = system.partitions(name)
    if partition is not None and not 0 <= partition < known:
        raise NotFoundError(f"{name} has no partition {partition}", f"its partitions are 0 to {known - 1}")
    wanted = None if partition is None else [partition]
    starts, ends = system.starts(name), system.ends(name, wanted)
    positions = {number: max(starts[number], _position(start, end)) for number, end in ends.items()}
    while True:
        for number, end in ends.items():
            begin = positions.setdefault(number, 0)
            if end > begin:
                for offsets, batch in system.read(name, number, [(begin, end)]):
                    yield number, offsets, batch
                positions[number] = end
        if not follow:
            return
        time.sleep(_POLL_SECONDS)
        ends = system.ends(name, wanted)


def _position(start: str, end: int) -> int:
    if start == "earliest":
        return 0
    if start == "latest":
        return end
    if start.isdecimal():
        return int(start)
    raise UsageError(f"--from {start} is not a place in a stream", "write earliest, latest or an offset, as in 0")


def _first(found: _Found, most: int | None) -> _Found:
    if most is None:
        yield from found
        return
    if most == 0:
        return
    for number, offsets, batch in found:
        yield number, offsets[:most], batch.slice(0, most)
        most -= min(most, batch.num_rows)
        if not most:
            return


def _opened(file: Path | None) -> Any:
    if file is None and sys.__stdin__ is None:
        raise UsageError("the standard input is closed", "pipe JSON lines into the command, or name a file with --file")
    if file is None:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(file, "rb")
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {file}", "name a file of JSON lines") from None
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}", "name a file of JSON lines") from error


def _system(stream: str, path: Path | None) -> System:
    from anabranch import config
    from anabranch.systems.systems import Systems

    return Systems(config.load(path)).of(stream)


def _print_json(value: Any) -> None:
    typer.echo(msgspec.json.encode(value).decode())
