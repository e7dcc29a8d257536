"""Puts the verbs together, prints errors and gives exit codes."""

from __future__ import annotations

import contextlib
import os
import sys

import click
import structlog
import typer

from anabranch.cli import demo, doctor, looking, planning, run, stop, stream
from anabranch.errors import AnabranchError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Long-lived stream-processing jobs on Spark that change while they run.",
)
app.add_typer(stream.app, name="stream")
app.command("run")(run.run)
app.command("plan")(planning.plan)
app.command("jobs")(looking.jobs)
app.command("status")(looking.status)
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
    except click.exceptions.Abort:
        code = _INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.stderr.flush()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.exit(code)
