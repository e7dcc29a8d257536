"""Puts the verbs together, prints errors and gives exit codes."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import sys
import threading
from typing import Any, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from anabranch import logs
from anabranch.errors import AnabranchError

_VERBS = {
    "init": "init:init",
    "run": "run:run",
    "coordinator": "coordinator:coordinator",
    "container": "container:container",
    "start": "start:start",
    "plan": "planning:plan",
    "jobs": "status:jobs",
    "status": "status:status",
    "describe": "status:describe",
    "events": "status:events",
    "why": "why:why",
    "show": "show:app",
    "dashboard": "dashboard:dashboard",
    "fence": "fence:fence",
    "scale": "scale:scale",
    "deploy": "deploy:deploy",
    "rollback": "rollback:rollback",
    "rewind": "rewind:rewind",
    "expand": "expand:expand",
    "drain": "drain:drain",
    "cancel": "cancel:cancel",
    "compact": "compact:compact",
    "reset": "reset:reset",
    "sizing": "sizing:sizing",
    "stop": "stop:stop",
    "check": "check:check",
    "doctor": "doctor:doctor",
    "demo": "demo:demo",
    "stream": "stream:app",
    "assign": "assign:app",
    "inspect": "inspecting:app",
}
"""Where each is: a module of this package, and its function, or its Typer of several."""


class _Verbs(TyperGroup):
    """Imports a verb when it is asked for: together, what all of them need takes more than a second."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: dict[str, Any] = dict.fromkeys(_VERBS)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self.commands.get(cmd_name) is None and cmd_name in _VERBS:
            self.commands[cmd_name] = _imported(cmd_name)
        return self.commands.get(cmd_name)


def _imported(name: str) -> Any:
    module, _, member = _VERBS[name].partition(":")
    gc.disable()  # there is none in what is imported, and to look for it takes a tenth of the time
    try:
        verb = getattr(importlib.import_module(f"anabranch.cli.{module}"), member)
    finally:
        gc.enable()
    if isinstance(verb, typer.Typer):
        found: Any = typer.main.get_group(verb)
        found.name = name
        return _literal(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(verb)
    return _literal(typer.main.get_command(alone))


def _literal(command: Any) -> Any:
    """Show help texts as they are written: rich would take ``[coordinator]`` for markup, and leave it out."""
    for each in (command, *command.params):
        if getattr(each, "help", None):
            each.help = each.help.replace("[", "\\[")
    for each in getattr(command, "commands", {}).values():
        _literal(each)
    return command


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Long-lived stream-processing jobs on Spark that change while they run.",
)


@app.callback()
def _anabranch() -> None:
    """Without it Typer takes an application that has no verbs yet for a mistake."""


_INTERRUPTED = 130
started_with: list[str] = []
"""The interpreter's arguments, if this process is the command line's and nobody else's who has imported it."""


def main() -> NoReturn:
    """The entry point of ``anabranch``."""
    started_with[:] = sys.orig_argv[1:]
    _end(called())


def called() -> int:
    """Do what the command line says; gives the exit code."""
    code = 1
    logs.to_stderr(os.environ.get("ANABRANCH_LOG", "warning"))
    try:
        code = app(standalone_mode=False) or 0
    except AnabranchError as error:
        sys.stderr.write(f"error: {error}\n")
        code = error.exit_code
    except typer.TyperException as error:  # a verb, an option or an argument that isn't known or allowed
        if message := error.format_message():
            sys.stderr.write(f"error: {message}\n  see anabranch --help\n")
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    return code


def _end(code: int) -> NoReturn:
    """End the process as Python does: wait for its threads and pools, and do what was registered. But don't take apart
    all that it has imported: with Spark, that takes as long as to stop Spark."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stderr.flush()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(code)
