"""Which of a job's files are the user's, and what is sent to workers as code because of it."""

from __future__ import annotations

import copy
import functools
import json
import operator
import sys
import sysconfig
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import anabranch
from anabranch import Job, Processor, Timers
from anabranch.job_code import user_files
from anabranch.launch import loading
from anabranch.spark.functions import job_functions
from anabranch.spark.session import session

Row = dict[str, Any]
HERE = Path(__file__)
INSTALLED = sysconfig.get_path("purelib")
ENVIRONMENT = str(Path(INSTALLED).parents[2])


def scaled(message: Row, by: Any) -> Row:
    return {"n": message["n"] * by}


def same(message: Row) -> Row:
    return message


@functools.cache
def cached(message: Row) -> Row:
    return message


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(message: Row) -> Any:
        return function(message)

    return inner


def of_a_library(function: Callable[..., Any]) -> Any:
    """Decorate a function as a library would that doesn't use functools.wraps."""
    text = "def around(function):\n def inner(message): return function(message)\n return inner"
    names: dict[str, Any] = {"__name__": "json.around"}
    exec(compile(text, json.__file__, "exec"), names)
    return names["around"](function)


class Scaled:
    def __call__(self, message: Row) -> Row:
        return message

    def method(self, message: Row) -> Row:
        return message

    @classmethod
    def of_class(cls, message: Row) -> Row:
        return message


class Answering:
    """Has every attribute, as xmlrpc.client.ServerProxy has."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def __getattr__(self, name: str) -> Answering:
        if name in ("__getstate__", "__setstate__"):
            raise AttributeError(name)
        return Answering(f"{self.__dict__.get('path')}.{name}")

    def call(self, message: Row) -> Row:
        return message


class Lazy:
    """A stand-in for an object that isn't there yet."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__getstate__", "__setstate__"):
            raise AttributeError(name)
        raise RuntimeError("working outside of a context")

    def call(self, message: Row) -> Row:
        return message


class LazyWrapper(Lazy):
    @property
    def __wrapped__(self) -> Any:
        raise RuntimeError("working outside of a context")


class Wrapper:
    """Says what it wraps as a descriptor, as wrapt's objects do."""

    @property
    def __wrapped__(self) -> Any:
        return same

    def __call__(self, message: Row) -> Row:
        return same(message)


Wrapper.__module__ = "json"


class Passing(Processor):
    def on_message(self, message: Row, timers: Timers) -> list[Row]:
        return [message]


USERS: dict[str, Any] = {
    "function": same,
    "lambda": lambda message: message,
    "instance": Scaled(),
    "method": Scaled().method,
    "class method": Scaled.of_class,
    "class": Scaled,
    "processor": Passing(),
    "partial": functools.partial(scaled, by=2),
    "partial of partial": functools.partial(functools.partial(scaled, by=2)),
    "partial of a library's function": functools.partial(functools.reduce, same),
    "cached": cached,
    "wraps partial": logged(functools.partial(scaled, by=2)),
    "wraps instance": logged(Scaled()),
    "wraps method": logged(Scaled().method),
    "wraps itemgetter": logged(operator.itemgetter("n")),
    "library's decorator": of_a_library(same),
    "method of an object with every attribute": Answering().users.list.call,
    "method of a lazy object": Lazy().call,
    "method of a lazy wrapper": LazyWrapper().call,
}
LIBRARIES: dict[str, Any] = {
    "itemgetter": operator.itemgetter("n"),
    "python's": copy.copy,
    "python's class": dict,
    "partial": functools.partial(copy.copy),
    "package's": pytest.raises,
    "bound": json.JSONEncoder().encode,
}


@pytest.mark.parametrize("name", USERS)
def test_the_file_of_every_kind_of_function_is_the_users(name: str) -> None:
    assert {Path(file) for file in user_files.files(USERS[name])} == {HERE}


def test_what_a_wrapper_of_a_library_wraps_is_found() -> None:
    files = list(user_files.files(Wrapper()))
    assert [Path(file) for file in files] == [HERE]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_function_of_a_library_has_no_file_of_the_users(name: str) -> None:
    assert not list(user_files.files(LIBRARIES[name]))


@pytest.mark.parametrize(
    ("home", "file", "below"),
    [
        ("/jobs/delays", "/jobs/delays/a/job.py", True),
        ("/jobs/delays/", "/jobs/delays/job.py", True),
        ("/jobs/delays", "/jobs/delays-old/job.py", False),
        ("/jobs/delays", "/jobs/delays/\0.py", False),
        (ENVIRONMENT, f"{ENVIRONMENT}/job.py", True),
        (ENVIRONMENT, f"{INSTALLED}/package/a.py", False),
        (ENVIRONMENT, f"{ENVIRONMENT}/x/../{Path(INSTALLED).relative_to(ENVIRONMENT)}/package/a.py", False),
        (f"{INSTALLED}/package", f"{INSTALLED}/package/job.py", True),
        (INSTALLED, f"{INSTALLED}/package/job.py", True),
        (str(Path(anabranch.__file__).parents[1]), anabranch.__file__, False),
    ],
)
def test_which_files_below_a_jobs_folder_are_the_users(home: str, file: str, below: bool) -> None:
    assert user_files.is_below(home, file) is below


def test_an_environment_to_which_a_link_in_the_jobs_folder_leads_is_not_the_users(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(ENVIRONMENT)
    within = Path(INSTALLED).relative_to(ENVIRONMENT)
    assert not user_files.is_below(str(tmp_path), str(tmp_path / ".venv" / within / "package" / "a.py"))


def test_what_refers_to_itself_is_looked_at_once() -> None:
    def own(message: Row) -> Row:
        return message

    own.__wrapped__ = own  # type: ignore[attr-defined]
    assert [Path(file) for file in user_files.files(own)] == [HERE]


def job_of(function: Any) -> Job:
    job = Job("made")
    rows = job.read("rows", key="k string", schema="n int").limit_per_key(3)
    stream = rows.process(function) if isinstance(function, Processor) else rows.map(function)
    stream.write("out")
    return job


@pytest.mark.parametrize("name", USERS)
def test_a_job_s_home_is_the_folder_of_the_first_function_of_the_user_s(name: str) -> None:
    assert loading.of(job_of(USERS[name])).path == HERE


@pytest.mark.parametrize(
    "function", [*USERS.values(), *LIBRARIES.values()], ids=[*USERS, *(f"{n} " for n in LIBRARIES)]
)
def test_only_modules_of_the_user_s_are_sent_as_code(function: Any) -> None:
    job = job_of(function)
    before = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    try:
        session.carry(job.functions)
        by_value = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
        pickled = cloudpickle.dumps([functools.partial(scaled, by=Decimal(1)), timedelta(1)])  # type: ignore[no-untyped-call]
        sent = [job_functions.of_node(job.graph[node], job.functions, "") for node in job.functions]
    finally:
        for module in cloudpickle.list_registry_pickle_by_value() - before:  # type: ignore[no-untyped-call]
            cloudpickle.unregister_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]
    folders = {Path(str(sys.modules[module].__file__)).parent for module in by_value - before}
    assert folders == ({HERE.parent} if function in USERS.values() else set())
    assert pickled
    assert all(each.pickled for each in sent)
