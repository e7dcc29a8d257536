"""``anabranch rewind``: makes a running job read its streams again, from the earliest records, a time, or offsets."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, scale
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.errors import NotFoundError, UsageError
from anabranch.protocol.commands import RewindRequest, StateHandling

__all__ = ["rewind", "wished"]

_SUFFIX = ".json"
_EXAMPLE = 'it holds offsets by SSP: {"kafka/flights/0": 120}'


@with_change_options
def rewind(
    job: options.Job,
    to: Annotated[str, typer.Option(help="earliest, a time such as 2026-11-22T10:00:00Z, or a JSON file.")],
    state: Annotated[
        str | None, typer.Option(help="What happens to state: keep or clear. Required if there is any.")
    ] = None,
    *,
    chosen: ChangeOptions,
) -> None:
    """Make a running job read its streams again, and wait until it does. Ctrl-C stops only the waiting."""
    wish = msgspec.structs.replace(wished(to, state), now=chosen.now)
    with connect.client(configuration.load(chosen.config).coordinator, job) as client:
        rewound = client.rewind(job, wish)
        haste.said(chosen.now)
        told = f"rewound to {to}, generation {rewound.generation}"
        told += scale.followed(client, job, rewound, chosen.patience)
    scale.tell(job, rewound, told, chosen.json)


def wished(to: str, state: str | None, dry: bool = False) -> RewindRequest:
    """The request to rewind.

    Args:
        to: ``earliest``, a time, or the path of a JSON file that maps SSPs to offsets. A path must end in ``.json``. A
            time isn't checked here.
        state: ``keep`` or ``clear``; None if it isn't given.
        dry: whether the rewind is only planned.

    Raises:
        NotFoundError: the file doesn't exist.
        UsageError: the file can't be read, has invalid content, or names no SSP; or ``state`` is invalid.
    """
    if state is not None and state not in set(StateHandling):
        raise UsageError(f"--state can't be {state!r}", f"give {' or '.join(StateHandling)}")
    place = _positions(Path(to)) if to.endswith(_SUFFIX) else to
    handling = None if state is None else StateHandling(state)
    return RewindRequest(to=place, state=handling, dry=dry, request=uuid.uuid4().hex)


def _positions(file: Path) -> dict[str, int]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {file}", _EXAMPLE) from None
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}", _EXAMPLE) from error
    try:
        found = msgspec.json.decode(text, type=dict[str, int])
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{file} isn't a file of positions: {error}", _EXAMPLE) from error
    if not found:
        raise UsageError(f"{file} names no partition", _EXAMPLE)
    return found
