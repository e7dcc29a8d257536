"""Assembles the verbs, prints errors, and determines exit codes."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pkgutil
import sys
import threading
from collections.abc import Collection
from typing import Annotated, Any, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from anabranch import cli, logs
from anabranch.errors import AnabranchError, ConfigError

_ORDER = [
    "init",
    "run",
    "coordinator",
    "container",
    "start",
    "plan",
    "jobs",
    "status",
    "describe",
    "events",
    "why",
    "show",
    "dashboard",
    "fence",
    "scale",
    "deploy",
    "rollback",
    "rewind",
    "expand",
    "drain",
    "cancel",
    "compact",
    "backup",
    "restore",
    "reset",
    "accept",
    "sizing",
    "stop",
    "check",
    "doctor",
    "jars",
    "demo",
    "stream",
    "assign",
    "inspect",
]
"""The order of verbs in the help text. Other verbs come last."""


class _Verbs(TyperGroup):
    """The verbs. Each is a function, or a Typer ``app``, in the module of the same name.

    These modules are imported on demand, because importing all of them takes more than a second.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: dict[str, Any] = dict.fromkeys(_ORDER)

    def list_commands(self, ctx: Any) -> list[str]:
        modules = sorted(module.name for module in pkgutil.iter_modules(cli.__path__))
        return [name for name in dict.fromkeys([*_ORDER, *modules]) if self.get_command(ctx, name) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self.commands.get(cmd_name) is None and (found := _imported(cmd_name)) is not None:
            self.commands[cmd_name] = found
        return self.commands.get(cmd_name)


def _imported(name: str) -> Any:
    """The verb with this name, or None."""
    path = f"{cli.__name__}.{name}"
    if path == __name__ or not name.isidentifier() or importlib.util.find_spec(path) is None:
        return None
    gc.disable()  # importing leaves no garbage, and collecting takes a tenth of the time
    try:
        module = importlib.import_module(path)
    finally:
        gc.enable()
    if isinstance(several := getattr(module, "app", None), typer.Typer):
        found: Any = typer.main.get_group(several)
        found.name = name
        return _literal(found)
    verb = getattr(module, name, None)
    if not inspect.isfunction(verb):
        return None
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(verb)
    return _literal(typer.main.get_command(alone))


def _literal(command: Any) -> Any:
    """Escape brackets in help texts, so rich doesn't drop ``[coordinator]`` as markup."""
    for each in (command, *command.params):
        if getattr(each, "help", None):
            each.help = each.help.replace("[", "\\[")
    for each in getattr(command, "commands", {}).values():
        _literal(each)
    return command


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Long-lived stream-processing jobs on Spark that change while they run.",
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"anabranch {importlib.metadata.version('anabranch')}")
        raise typer.Exit


@app.callback()
def _anabranch(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declares the options that come before a verb. Typer requires such a function, because no verb is registered with
    ``app`` itself."""


_INTERRUPTED = 130
_FORMAT = "ANABRANCH_LOG_FORMAT"
_DEBUG = "ANABRANCH_LOG=debug"
started_with: list[str] = []
"""The interpreter's arguments if this process was started as ``anabranch``; empty if another program imports this
module."""


def main() -> NoReturn:
    """The entry point of ``anabranch``."""
    started_with[:] = sys.orig_argv[1:]
    _open_closed_streams()
    _end(called())


def called() -> int:
    """Run the command line, and return the exit code."""
    code = 1
    try:
        logs.to_stderr(_chosen("ANABRANCH_LOG", "warning", logs.LEVELS), _chosen(_FORMAT, "text", logs.FORMATS))
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except AnabranchError as error:
        logs.say(f"error: {error}")
        code = error.exit_code
    except typer.TyperException as error:  # an unknown or invalid verb, option or argument
        if message := error.format_message():
            context = getattr(error, "ctx", None)
            verb = context.command_path if context is not None else "anabranch"
            logs.say(f"error: {message}\n  see {verb} --help")
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        logs.say(f"error: {why if error.filename is None else f'{error.filename}: {why}'}\n  {_DEBUG} shows where")
        logs.get_logger().debug("the error came from here", exc_info=True)
        code = 1
    return code


def _open_closed_streams() -> None:
    """Replace closed standard streams with ``/dev/null``. Otherwise, these streams would be None in this process and,
    in processes that it starts, the next files to be opened would take their place. ``sys.__stdin__`` stays None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def _chosen(variable: str, default: str, known: Collection[str]) -> str:
    value = os.environ.get(variable, default).strip().lower() or default
    if value not in known:
        raise ConfigError(f"{variable} is {value}", f"set it to one of {', '.join(known)}")
    return value


def _end(code: int) -> NoReturn:
    """End the process as Python does: wait for threads and pools, and run exit functions. But don't tear down imported
    modules: with Spark, that would take as long as stopping Spark.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stderr, sys.stdout):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)
