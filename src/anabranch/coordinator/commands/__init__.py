"""What users and clients want done to a job: a file a verb, each with ``check``, ``plan`` and ``apply``.

``check`` raises what stands against it, ``plan`` says what would come of it and changes nothing, ``apply`` does it, in
steps that are stored first. ``run`` takes these steps while it holds the job.

A new verb is a module here, a row of the same name in :mod:`anabranch.coordinator.api.operations`, the documents that
it takes and gives in :mod:`anabranch.protocol`, and a module of the same name in :mod:`anabranch.cli`.
The server, the client, OpenAPI, the coordinator and the command line need not be told of it. (A call that only reads
is a method of :class:`anabranch.coordinator.coordinator.Coordinator`.)
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from anabranch.coordinator.commands.context import Context

__all__ = ["Command", "Context", "named"]


class Command(Protocol):
    """A module of this package. ``run`` takes the arguments of the operation that has the command's name."""

    def run(self, context: Context, /, *arguments: Any, **named: Any) -> Any: ...


def named(name: str) -> Command:
    """The command of an operation. ModuleNotFoundError if there is none."""
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))
