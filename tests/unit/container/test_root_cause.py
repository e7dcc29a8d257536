"""What the text of an exception says of what lies at its root."""

from __future__ import annotations

import random
import sysconfig
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from anabranch.container import error_text
from anabranch.container.error_text import Remedy
from anabranch.spark import root_cause

JOB = "/home/me/job"
INSTALLED = Path(sysconfig.get_path("purelib"))
HOME = INSTALLED.parents[2]  # of HOME/lib/python3.12/site-packages
SAMPLES = Path(__file__).parent / "failures" / "causes"
TOLD = {
    "task_not_deserialized": ("OptionalDataException", Remedy.PROCESS),
    "task_not_deserialized_in_batch": ("OptionalDataException", Remedy.PROCESS),
    "py4j_trace": ("OptionalDataException", Remedy.PROCESS),
    "py4j_no_method": ("Py4JException: Method load([]) does not exist", Remedy.PROCESS),
    "worker_user_code": ("ZeroDivisionError: division by zero at prices.py:12 in of", Remedy.ATTEMPT),
    "python_chain": ("ConnectionRefusedError: [Errno 111] Connection refused at job.py:3 in opened", Remedy.ATTEMPT),
    "stream_failed_cast": ("[CAST_INVALID_INPUT] The value 'x' cannot be cast.", Remedy.ATTEMPT),
    "disk_full": ("IOException: No space left on device", Remedy.WAIT),
    "kafka_timeout": (
        "Kafka's TimeoutException: Timed out waiting for a node assignment. Call: describeTopics",
        Remedy.WAIT,
    ),
    "kafka_rights": ("Kafka's TopicAuthorizationException: Not authorized to access topics: [t]", Remedy.WAIT),
    "worker_crashed": ("a Python worker has crashed, or was killed", Remedy.PROCESS),
    "out_of_memory": ("OutOfMemoryError: Java heap space", Remedy.PROCESS),
    "null_pointer": ("NullPointerException", Remedy.PROCESS),
    "executor_lost": ("executor 7 was lost: Command exited with code 137", Remedy.PROCESS),
}


def sample(name: str) -> RuntimeError:
    return RuntimeError((SAMPLES / f"{name}.txt").read_text())


@pytest.mark.parametrize("name", TOLD)
def test_the_root(name: str) -> None:
    failed = error_text.failure(sample(name), JOB)
    assert (failed.what, failed.remedy) == TOLD[name]
    assert failed.cure or failed.what.startswith("["), "what to do of SQL, the operator that is named says"


def test_every_sample_is_told_of() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == set(TOLD)


def test_how_it_was_noticed_is_told_too() -> None:
    assert "Spark has tried its task 4 times" in error_text.failure(sample("task_not_deserialized")).reasons
    assert error_text.failure(sample("python_chain"), JOB).reasons[0] == "in RuntimeError: it can't be saved"


def test_exceptions_of_python_are_followed_to_their_cause() -> None:
    try:
        try:
            {}["price"]
        except KeyError as error:
            raise RuntimeError("no price") from error
    except RuntimeError as error:
        failed = error_text.failure(error, __file__.rpartition("/")[0])
    assert failed.what.startswith("KeyError: 'price' at test_root_cause.py:")
    assert failed.what.endswith("in test_exceptions_of_python_are_followed_to_their_cause")
    assert failed.reasons == ("in RuntimeError: no price",)


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        (INSTALLED / "anabranch" / "systems" / "kafka" / "transactions.py", Remedy.WAIT),
        (HOME / "job.py", Remedy.ATTEMPT),
    ],
)
def test_a_failure_in_a_package_installed_in_the_jobs_folder_is_not_the_jobs(file: Path, remedy: Remedy) -> None:
    text = f'Traceback (most recent call last):\n  File "{file}", line 3, in f\n    f()\n'
    away = 'cimpl.KafkaException: KafkaError{code=_ALL_BROKERS_DOWN,val=-187,str="4/4 brokers are down"}'
    failed = error_text.failure(RuntimeError(text + away), str(HOME))
    assert failed.remedy == remedy
    assert (" at job.py:3 in f" in failed.what) == (remedy is Remedy.ATTEMPT)
    assert str(INSTALLED) not in failed.told


def test_the_cause_that_py4j_keeps_is_followed() -> None:
    """https://github.com/py4j/py4j/issues/528"""
    lost = Py4JNetworkError("An error occurred while trying to connect", ConnectionResetError(104, "reset by peer"))
    failed = error_text.failure(Py4JError("An error occurred while calling o3.x", cause=lost))
    assert (failed.what, failed.remedy) == ("the Java process of Spark has ended", Remedy.PROCESS)
    assert any("reset by peer" in each for each in failed.reasons)


class _UnsayableError(Exception):
    def __str__(self) -> str:
        raise ConnectionRefusedError


def test_what_cannot_be_said_has_at_least_a_name() -> None:
    assert error_text.failure(_UnsayableError()).what == "_UnsayableError"
    looped = ValueError("round")
    looped.__cause__ = looped
    assert error_text.failure(looped).what == "ValueError: round"


@pytest.mark.parametrize("size", [10_000, 60_000_000])
def test_a_message_that_holds_a_large_record(size: int) -> None:
    text = f"x\nCaused by: java.io.IOException: {'y' * size}\n\tat a(B:1)\nCaused by: java.io.EOFException: the end"
    failed = error_text.failure(RuntimeError(text))
    assert failed.what == "EOFException: the end"
    assert len(failed.told) < 4000


PIECES = (
    "Traceback (most recent call last):",
    '  File "/home/me/job/job.py", line 3, in f',
    "    x = 1",
    "KeyError: 'a'",
    "Caused by: java.io.IOException: No space left on device",
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times",
    "Lost task 0.3 in stage 0.0 (TID 3) (h executor driver): java.lang.IllegalStateException",
    "An error occurred while calling o1.x. Trace:",
    "\tat a.b(C.java:1)",
    "During handling of the above exception, another exception occurred:",
    "[A_B.C] why. SQLSTATE: 42000",
    "  | ValueError: in a group",
    "ExecutorLostFailure (executor 1 exited unrelated to the running tasks) Reason: gone",
    "=== Streaming Query ===",
    "a." * 100_000 + "!",
    "\ud800\x00\u2028",
    "",
)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_the_text_is_it_is_told_of_in_a_few_lines(seed: int) -> None:
    dice = random.Random(seed)
    text = "\n".join(dice.choices(PIECES, k=dice.randint(0, 25)))
    failed = error_text.failure(RuntimeError(text), JOB)
    assert failed.what
    assert len(failed.told) < 4000
    assert isinstance(failed.remedy, Remedy)


def test_a_message_of_many_lines_takes_no_longer_than_one_long_line() -> None:
    before = time.process_time()
    (cause,) = root_cause.parsed("ValueError: bad payload\n" + "1\n" * 200_000).causes
    assert cause.message == "bad payload\n1\n1"
    assert time.process_time() - before < 10


def test_text_of_an_exception_holds_all_that_it_and_its_causes_say() -> None:
    inner, outer = ValueError("deep"), RuntimeError("high")
    outer.__cause__ = inner
    assert root_cause.text_of(outer).split("\n\n") == [
        "builtins.RuntimeError: high",
        "Caused by: builtins.ValueError: deep",
    ]
