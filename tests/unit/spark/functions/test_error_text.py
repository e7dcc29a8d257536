"""Whatever an exception or a row is, something short can be told of it, and UTF-8 can encode that."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PythonException

from anabranch.errors import StateError
from anabranch.spark.functions import error_text

HERE = str(Path(__file__).parent)
BIG = 50 * 2**20


class Mute(Exception):
    def __str__(self) -> NoReturn:
        raise KeyboardInterrupt

    __repr__ = __str__


class NoText(Exception):
    def __str__(self) -> Any:
        return 7  # noqa: PLE0307


class Hidden(Exception):
    def __getattribute__(self, name: str) -> NoReturn:
        raise SystemExit(name)


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise ZeroDivisionError(name)


class Odd(Exception, metaclass=Meta):
    pass


class Text(str):
    def __len__(self) -> int:
        raise OSError("no length")

    def encode(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError("no bytes")


def raised(make: Callable[[], BaseException]) -> BaseException:
    try:
        raise make()
    except BaseException as error:
        return error


def caused() -> BaseException:
    try:
        try:
            raise KeyError("the first")
        except KeyError as first:
            raise ValueError("the second") from first
    except ValueError as error:
        return error


def in_a_circle() -> BaseException:
    one, other = ValueError("one"), TypeError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def deep() -> BaseException:
    def again(n: int) -> int:
        return again(n + 1) + 1

    try:
        again(0)
    except RecursionError as error:
        return error
    raise AssertionError


def nested(levels: int) -> BaseException:
    group: Exception = ValueError("innermost")
    for _ in range(levels):
        group = ExceptionGroup("level", [group] * 7)
    return group


def noted() -> BaseException:
    error = ValueError("x")
    error.add_note("in the cellar\nbehind the door")
    error.__notes__.append(Mute())  # type: ignore[arg-type]
    return error


TABLE: dict[str, tuple[Callable[[], BaseException], str]] = {
    "text": (lambda: ValueError("three is too many"), "ValueError: three is too many at test_error_text.py:"),
    "no text": (ValueError, "ValueError at test_error_text.py:"),
    "lines": (lambda: ValueError("bad row\r\n\n  id=5\n"), "ValueError: bad row | id=5 at test_error_text.py:"),
    "__str__ raises": (Mute, "Mute: its text can't be made: __str__ of Mute raises"),
    "__str__ gives no text": (NoText, "NoText: its text can't be made"),
    "50 MB": (lambda: ValueError("x" * BIG), "ValueError: xxxxx"),
    "lone surrogate": (lambda: ValueError("\ud800"), "ValueError: \\ud800"),
    "NUL": (lambda: ValueError("a\0b"), "ValueError: a\\x00b"),
    "text of a class of its own": (lambda: ValueError(Text("abc")), "ValueError: abc"),
    "attributes raise": (Hidden, "Hidden"),
    "a class whose attributes raise": (lambda: Odd("x"), "Odd"),
    "exit": (lambda: SystemExit(3), "SystemExit: 3"),
    "interrupt": (KeyboardInterrupt, "KeyboardInterrupt"),
    "generator": (GeneratorExit, "GeneratorExit"),
    "stop": (lambda: StopIteration({"a": 1}), "StopIteration: {'a': 1}"),
    "memory": (MemoryError, "MemoryError"),
    "recursion": (deep, "RecursionError: maximum recursion depth exceeded"),
    "cause": (caused, "ValueError: the second at test_error_text.py:"),
    "circle": (in_a_circle, "ValueError: one"),
    "group": (
        lambda: ExceptionGroup("two", [ValueError("a"), TypeError("b")]),
        "ExceptionGroup: two (2 sub-exceptions) [ValueError: a; TypeError: b]",
    ),
    "nested groups": (lambda: nested(50), "ExceptionGroup: level"),
    "base group": (lambda: BaseExceptionGroup("g", [SystemExit(1)]), "BaseExceptionGroup: g"),
    "notes": (noted, "ValueError: x (in the cellar | behind the door)"),
    "unicode": (lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "UnicodeDecodeError: 'utf-8' codec"),
}


@pytest.mark.parametrize("name", TABLE)
def test_an_exception_is_told_in_short_valid_text(name: str) -> None:
    make, wanted = TABLE[name]
    told = error_text.described(raised(make), HERE)
    assert told.startswith(wanted)
    assert 0 < len(told) <= error_text.LIMIT
    assert "\0" not in told.encode().decode()
    assert told.splitlines() == [told]


IN_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/home/me/job/prices.py", line 12, in of
    return 1 / row["n"]
ZeroDivisionError: division by zero
"""
IN_JAVA = """An error occurred while calling o1.jdbc.
: org.x.PoolException: no connection
\tat org.x.Pool.get(Pool.java:1)
Caused by: java.net.ConnectException: refused
\tat java.net.Socket.connect(Socket.java:1)
"""
IN_SQL = "[UNRESOLVED_COLUMN] There is no x. SQLSTATE: 42703; line 1 pos 0;\n'Project ['x]\n+- Range\n"
OF_OURS = "An exception was thrown from the Python worker:\nanabranch.errors.OperatorError: map 'm' raised KeyError\n"


def because(cause: BaseException) -> BaseException:
    error = RuntimeError("it can't be saved")
    error.__cause__ = cause
    return error


OF_SPARK: dict[str, tuple[BaseException, str]] = {
    "worker": (PythonException(IN_WORKER), "ZeroDivisionError: division by zero at prices.py:12 in of"),
    "Java": (Py4JError(IN_JAVA), "PoolException: no connection; caused by ConnectException: refused"),
    "SQL": (
        AnalysisException(IN_SQL),
        "AnalysisException: [UNRESOLVED_COLUMN] There is no x. SQLSTATE: 42703; line 1 pos 0;",
    ),
    "cause": (
        because(PythonException(IN_WORKER)),
        "RuntimeError: it can't be saved; caused by ZeroDivisionError: division by zero at prices.py:12 in of",
    ),
}


@pytest.mark.parametrize("name", OF_SPARK)
def test_an_exception_of_spark_is_told_by_the_causes_that_it_quotes(name: str) -> None:
    error, wanted = OF_SPARK[name]
    assert error_text.described(error, "/home/me/job") == wanted


@pytest.mark.parametrize(
    ("error", "quotes", "is_quotable"),
    [
        (ValueError("no"), False, True),
        (Mute(), False, True),
        (PythonException(OF_OURS), True, False),
        (because(PythonException(OF_OURS)), True, False),
        (ExceptionGroup("several", [ValueError("no"), PythonException(OF_OURS)]), True, False),
        (because(StateError("a folder is gone")), False, False),  # raised in this process, not by a worker
    ],
    ids=range(6),
)
def test_an_error_of_anabranch_in_another_one_is_seen(error: BaseException, quotes: bool, is_quotable: bool) -> None:
    assert error_text.quotes_ours(error) is quotes
    assert error_text.quotable(error) is (error if is_quotable else None)


def test_members_of_groups_and_causes_are_told() -> None:
    assert "; caused by KeyError: 'the first'" in error_text.described(caused())
    assert "[ValueError: a; TypeError: b]" in error_text.described(TABLE["group"][0]())


def test_without_a_folder_all_frames_are_told() -> None:
    def failing() -> NoReturn:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        failing()
    told = error_text.described(raised.value)
    assert "test_error_text.py:" in told
    assert told.endswith(" in failing")
    assert error_text.described(raised.value, "/elsewhere") == "ValueError: no"


def raised_in(file: str) -> BaseException:
    scope: dict[str, Any] = {}
    exec(compile("def failing():\n    raise ValueError('no')\n", file, "exec"), scope)
    with pytest.raises(ValueError, match="no") as raised:
        scope["failing"]()
    return raised.value


@pytest.mark.parametrize("home", ["/jobs/delays", "/jobs/delays/"])
def test_a_frame_in_a_folder_whose_name_only_begins_like_the_jobs_folder_is_left_out(home: str) -> None:
    assert error_text.described(raised_in("/jobs/delays/job.py"), home) == "ValueError: no at job.py:2 in failing"
    assert error_text.described(raised_in("/jobs/delays-old/job.py"), home) == "ValueError: no"


def test_a_frame_of_a_package_that_is_installed_in_the_jobs_folder_is_left_out() -> None:
    installed = Path(sysconfig.get_path("purelib"))
    home = str(installed.parents[2])  # of HOME/lib/python3.12/site-packages
    assert error_text.described(raised_in(str(installed / "package" / "a.py")), home) == "ValueError: no"
    assert error_text.described(raised_in(f"{home}/job.py"), home) == "ValueError: no at job.py:2 in failing"


def test_a_deep_trace_is_cut() -> None:
    assert "more frames" in error_text.described(deep(), HERE)


class Unprintable:
    def __repr__(self) -> NoReturn:
        raise GeneratorExit

    __str__ = __repr__


def circular() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


ROWS: list[tuple[Any, Any]] = [
    ({"n": 1, "k": "k"}, {"n": 1, "k": "k"}),
    ({"b": b"\xff\x00"}, {"b": "/wA="}),
    ({"x": float("nan"), "y": float("-inf")}, {"x": "nan", "y": "-inf"}),
    ({"d": Decimal("1.50"), "t": datetime(2026, 1, 2, tzinfo=UTC)}, {"d": "1.50", "t": "2026-01-02 00:00:00+00:00"}),
    ({"m": {(1, 2): "x", date(2026, 1, 2): 3}}, {"m": {"[1, 2]": "x", "2026-01-02": 3}}),
    ({"s": "\ud800"}, {"s": "\ud800"}),
    ({"u": Unprintable()}, {"u": "<a Unprintable that has no repr>"}),
    ({"i": timedelta(seconds=1)}, {"i": "0:00:01"}),
    (None, None),
]


@pytest.mark.parametrize(("row", "wanted"), ROWS, ids=range(len(ROWS)))
def test_a_row_is_always_json(row: Any, wanted: Any) -> None:
    assert json.loads(error_text.as_json(row)) == wanted


@pytest.mark.parametrize(
    "row", [{"c": circular()}, {"n": 10**5000}, {"n": -(10**100_000)}, Unprintable()], ids=range(4)
)
def test_a_row_of_any_kind_is_json(row: Any) -> None:
    json.loads(error_text.as_json(row))


@pytest.mark.parametrize(
    "value",
    ["x" * BIG, b"x" * BIG, ["y" * BIG] * 3, {"k": ["z" * BIG]}, 10**50_000, Unprintable(), circular(), "\ud800"],
    ids=range(8),
)
def test_a_value_is_told_in_short(value: Any) -> None:
    assert 0 < len(error_text.shortened(value).encode()) < 400


_any_text = st.text(st.characters(), max_size=50) | st.text(st.characters(categories=["Cs"]), max_size=4)
_names = st.integers() | _any_text | st.binary()
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=20) | _any_text | st.decimals(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.integers() | _any_text | st.binary(), inner, max_size=3)
    ),
    max_leaves=10,
)
_kinds = st.sampled_from([ValueError, SystemExit, StopIteration, KeyError, OSError, Mute, NoText, Hidden, Exception])


@given(_kinds, st.lists(_values, max_size=3), st.booleans(), st.lists(_values, max_size=2))
def test_nothing_that_is_raised_is_too_odd(kind: type[BaseException], given: Any, group: bool, cause: Any) -> None:
    error: BaseException = kind(*given)
    if group and isinstance(error, Exception):
        error = ExceptionGroup("several", [error, ValueError(cause)])
    told = error_text.described(raised(lambda: error), HERE)
    assert 0 < len(told) <= error_text.LIMIT
    assert "\0" not in told.encode().decode()
    assert told.splitlines() == [told]


@given(st.dictionaries(_any_text, _values, max_size=4))
def test_no_row_is_too_odd(row: dict[str, Any]) -> None:
    json.loads(error_text.as_json(row).decode())


def test_what_can_be_recursive_is_told_near_the_limit() -> None:
    """A handler may run where hardly any stack is left."""
    row: Any = 1
    for _ in range(sys.getrecursionlimit() * 2):
        row = [row]
    json.loads(error_text.as_json({"row": row}))
