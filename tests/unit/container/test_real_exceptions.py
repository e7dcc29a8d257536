"""What is told of real exceptions of Spark, kept whole in ``failures/``: the cause in our words, and no stack trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.container import error_text

SAMPLES = Path(__file__).parent / "failures"


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


TOLD = {
    "fenced": (
        "lane 0-00000000 of j, epoch 1, must not write to out, partition 0: epoch 5 has taken over\n"
        "  nothing was written; this process must stop, the lane continues elsewhere"
    ),
    "segment_missing": (
        "/log/in/0/segments/X.arrow, which holds the offsets 0 to 4, is missing\n"
        "  restore the file from a backup; nothing from offset 0 on was processed"
    ),
    "flat_map": (
        "flat_map 'flat-map' (test_lanes.py:168) raised TypeError: 'int' object is not iterable, on offsets 0 to 4 of "
        "partition 0\n"
        "  fix the function; the lane continues from this batch at the next run"
    ),
    "foreach_batch": (
        "foreach_batch 'foreach-batch' (test_lanes.py:174) raised ValueError: no report of 5 rows at "
        "test_lanes.py:150 in broken_report, on batch 0\n"
        "  fix the function; the lane continues from this batch at the next run"
    ),
    "divide_by_zero": (
        "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate divisor being 0 and return NULL instead. "
        'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.'
    ),
    "malformed_json": (
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected in record parsing: [null].\n"
        "  because of JsonEOFException: Unexpected end-of-input: expected close marker for Object (start marker at "
        "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 1]) at [Source: "
        "UNKNOWN; line: 1, column: 2]"
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_cause_is_told_and_no_trace(name: str) -> None:
    told = error_text.failure(RuntimeError(sample(name))).told
    told = re.sub(r"/tmp/pytest-\S+/log/(\S+)/[0-9a-f]{32}\.arrow", r"/log/\1/X.arrow", told)
    assert told == TOLD[name]


def test_every_sample_is_told_of() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == set(TOLD)


def test_a_python_error_that_is_not_ours_is_told_by_its_last_line() -> None:
    text = re.sub(r"anabranch\.errors\.OperatorError: .*\n.*fix.*", "KeyError: 'dest'", sample("foreach_batch"))
    assert "anabranch.errors" not in text
    assert error_text.failure(RuntimeError(text)).told.splitlines()[0] == "KeyError: 'dest'"


CHAIN = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/home/me/job/job.py", line 3, in save
    raise ValueError("no")
ValueError: no

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/project/src/anabranch/spark/query.py", line 199, in _call
anabranch.errors.OperatorError: f raised ValueError: no
  fix it

=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "RuntimeError"),
        ("it broke\nJVM stacktrace:\n\tat a.b(C.java:1)", "RuntimeError: it broke"),
        ("it broke\n\tat a.b(C.java:1)\nCaused by: x", "RuntimeError: it broke"),
        ("[STREAM_FAILED] Query terminated\nCaused by: x.Y: [A_B.C] why. SQLSTATE: 42\n\tat z", "[A_B.C] why."),
        ("x anabranch.errors.StateError: gone\n  restore it\n\n\tat z(A.java:1)", "gone\n  restore it"),
        ("anabranch.errors.LogError: first\n\tat z\nanabranch.errors.LogError: second", "first"),
        (CHAIN, "f raised ValueError: no\n  fix it"),
        (
            "An error occurred while calling o1.x.\n: java.io.IOException: /a is full\n\tat z\n",
            "IOException: /a is full",
        ),
        ("An error occurred while calling o1.x.\n: java.lang.NullPointerException\n\tat z\n", "NullPointerException"),
    ],
)
def test_other_forms(text: str, told: str) -> None:
    failed = error_text.failure(RuntimeError(text))
    assert "\n  ".join((failed.what, *failed.reasons)) == told
