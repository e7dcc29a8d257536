"""What a process logs, and what it takes to."""

import subprocess
import sys

SAYS = """
import sys
from anabranch import logs
{before}
log = logs.get_logger()
{after}
log.info("what happens")
log.warning("what is odd", lane="L")
"""
TO_STDERR = 'logs.to_stderr("{level}")'


def said(before: str = "", after: str = "") -> tuple[str, str]:
    run = [sys.executable, "-c", SAYS.format(before=before, after=after)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_messages_from_a_level_on_come_out_on_stderr() -> None:
    warning, info = TO_STDERR.format(level="warning"), TO_STDERR.format(level="info")
    for printed, log in (said(before=warning), said(after=warning)):
        assert printed == ""
        assert "what is odd" in log
        assert "lane=L" in log
        assert "what happens" not in log
    assert "what happens" in said(before=info)[1]


def test_settings_of_others_are_left_alone() -> None:
    theirs = "import structlog; structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))"
    printed, log = said(before=theirs)
    assert "what is odd" in printed
    assert log == ""


def test_a_verb_that_only_asks_imports_nothing_to_log_with() -> None:
    asks = "import sys, anabranch.cli.main, anabranch.cli.drain, anabranch.cli.scale, anabranch.cli.status"
    found = f"{asks}; print([name for name in ('structlog', 'sqlalchemy', 'pyspark') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
