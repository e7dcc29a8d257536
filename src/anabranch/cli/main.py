"""Puts the verbs together, prints errors and gives exit codes."""

from __future__ import annotations

import contextlib
import os
import sys

import structlog
import typer

from anabranch.cli import (
    assign,
    cancel,
    compact,
    container,
    coordinator,
    demo,
    deploy,
    doctor,
    drain,
    expand,
    fence,
    init,
    inspecting,
    looking,
    planning,
    rewind,
    rollback,
    run,
    scale,
    sizing,
    start,
    stop,
    stream,
)
from anabranch.errors import AnabranchError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Long-lived stream-processing jobs on Spark that change while they run.",
)
app.add_typer(stream.app, name="stream")
app.add_typer(assign.app, name="assign")
app.add_typer(inspecting.app, name="inspect")
app.command("init")(init.init)
app.command("run")(run.run)
app.command("coordinator")(coordinator.coordinator)
app.command("container")(container.container)
app.command("start")(start.start)
app.command("plan")(planning.plan)
app.command("jobs")(looking.jobs)
app.command("status")(looking.status)
app.command("describe")(looking.describe)
app.command("events")(looking.events)
app.command("fence")(fence.fence)
app.command("scale")(scale.scale)
app.command("deploy")(deploy.deploy)
app.command("rollback")(rollback.rollback)
app.command("rewind")(rewind.rewind)
app.command("expand")(expand.expand)
app.command("drain")(drain.drain)
app.command("cancel")(cancel.cancel)
app.command("compact")(compact.compact)
app.command("sizing")(sizing.sizing)
app.command("stop")(stop.stop)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)

_INTERRUPTED = 130


def main() -> None:
    """The entry point of ``anabranch``."""
    code = 1
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(os.environ.get("ANABRANCH_LOG", "warning")),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
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
    sys.stderr.flush()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.exit(code)
