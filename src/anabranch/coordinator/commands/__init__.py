"""The changes that users and clients request for a job: a file for each verb, with ``check``, ``plan`` and ``apply``.

``check`` raises an error if something prevents the change, ``plan`` says what it would do and changes nothing, and
``apply`` does it, in steps that are stored first. ``run`` takes these steps while it holds the job.

A new verb is a module here, a row of the same name in :mod:`anabranch.coordinator.api.operations`, the documents that
it takes and returns in :mod:`anabranch.protocol`, and a module of the same name in :mod:`anabranch.cli`. Nothing needs
to be changed in the server, the client, OpenAPI, the coordinator or the command line. (A call that only reads is a
method of :class:`anabranch.coordinator.coordinator.Coordinator`.)
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
    """The command of an operation. Raises ModuleNotFoundError if there is none."""
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))
