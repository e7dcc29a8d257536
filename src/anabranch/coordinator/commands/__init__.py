"""The commands that change a job at a user's request. Each command has a module with ``check``, ``plan``, ``apply`` and
``run``. Simple commands, such as ``stop``, have no ``plan``. The module ``autoscale`` isn't a command, because only the
coordinator itself calls it. The modules ``context`` and ``off_lock`` contain code that commands share.

``check`` raises an error if something prevents the command. ``plan`` determines the effects and changes nothing.
``apply`` carries the plan out, and stores each new state of the job before that state takes effect. ``run`` calls these
functions, and holds the job's lock while it applies the plan. Once a change to a running job has begun, the job has the
state CHANGING, normally until all of the job's lanes are running. A request for a change does nothing if one of the
job's latest changes was requested with the same id.

To add a command, add these parts:

- a module in this package,
- an operation of the same name in :mod:`anabranch.coordinator.api.operations`,
- the documents that the operation takes and returns in :mod:`anabranch.protocol`,
- a module of the same name in :mod:`anabranch.cli`.

An operation that only reads needs no command: it is a method of
:class:`anabranch.coordinator.coordinator.Coordinator`.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol, cast

from anabranch.coordinator.commands.context import Context

__all__ = ["Command", "Context", "named"]


class Command(Protocol):
    """The interface of a command's module. After the context, ``run`` takes the arguments of the operation that has the
    command's name.
    """

    def run(self, context: Context, /, *arguments: Any, **named: Any) -> Any: ...


def named(name: str) -> Command:
    """The command that carries out the operation ``name``. Raises ModuleNotFoundError if there is none."""
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))
