"""Describes a private surface of Spark: its parts, the features that need the surface, and what happens without the
surface. Also checks whether a session's Spark has the surface.

Parts that aren't public may be missing or different in the next version of Spark. So a module that uses such parts
declares them in its ``SURFACE``. The module or its caller first asks whether this Spark has the surface::

    if query_hold.SURFACE.works(spark):
        ...  # the quick way
    else:
        ...  # the public, slower way

If there is no other way, ``SURFACE.insist(spark)`` is called instead.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import pyspark
from pyspark.sql import SparkSession

from anabranch.errors import UnsupportedSparkError
from anabranch.spark.internals import class_files, java
from anabranch.spark.internals.class_files import ClassFile

__all__ = ["DEADLINE", "SUPPORTED", "TRIED_WITHIN", "JavaMembers", "Need", "Probe", "PythonName", "Surface", "look"]

SUPPORTED = "PySpark 4.3"
"""The version of PySpark with which anabranch was tested, and which anabranch's package requires."""

DEADLINE = 60.0
"""Seconds within which the parts of a surface must be found. Otherwise the surface counts as missing until the next
check. Finding the parts takes milliseconds, but can take thousands of times as long on a busy machine.
"""
TRIED_WITHIN = 300.0
"""Seconds within which the trial of a surface must end. (Spark may have to load hundreds of classes for the trial.)"""


_files: dict[str, ClassFile | None] = {}
"""A cache of class files, by the name of the class. Several surfaces need the same class files, and Spark's class path
doesn't change.
"""


class Need(Protocol):
    """A part of a surface."""

    def missing(self, spark: SparkSession) -> str:
        """Which piece of the part is missing from this Spark, in words; empty if nothing is missing. If this method
        raises an exception, the part counts as missing.
        """
        ...


@dataclass(frozen=True)
class JavaMembers:
    """A Java class, and methods or fields that the class or one of its parents must have. Parents in Java's own
    packages (``java.``) don't count.
    """

    name: str
    members: tuple[str, ...] = ()

    def missing(self, spark: SparkSession) -> str:
        if not java.has_class(spark, self.name):
            return f"it has no class {self.name}"
        lost, due = {*self.members}, [self.name] if self.members else []
        while due:
            name = due.pop()
            found = _class_file(spark, name)
            if found is not None:
                lost -= found.members
                due += [each for each in found.parents if lost and not each.startswith("java.")]
        return f"{self.name} has no {', '.join(sorted(lost))}" if lost else ""


@dataclass(frozen=True)
class PythonName:
    """A module of PySpark, and a name that the module or one of the module's classes must have."""

    module: str
    name: str = ""

    def missing(self, spark: SparkSession | None) -> str:
        try:
            found: object = importlib.import_module(self.module)
        except ImportError:
            return f"PySpark has no module {self.module}"
        for part in filter(None, self.name.split(".")):
            if not hasattr(found, part):
                return f"{self.module} has no {self.name}"
            found = getattr(found, part)
        return ""


@dataclass(frozen=True)
class Probe:
    """Whether a session's Spark has a surface and, if the surface was tried, whether it works. ``missing`` describes
    what is missing or doesn't work; empty if nothing is wrong.
    """

    surface: Surface
    version: str
    missing: str = ""

    @property
    def works(self) -> bool:
        return not self.missing

    @property
    def summary(self) -> str:
        """The result in one sentence, without the final period."""
        if self.works:
            return f"as in {SUPPORTED}"
        instead = self.surface.otherwise or f"not available: {self.surface.used_for}"
        return f"Spark {self.version}: {self.missing}; {instead}"

    def refusal(self) -> UnsupportedSparkError:
        """The error for features that can't be used without the surface."""
        return UnsupportedSparkError(
            f"Spark {self.version} can't be used for {self.surface.used_for}: {self.missing}",
            f"anabranch supports {SUPPORTED}: install that version, and see anabranch doctor",
        )


class Surface:
    """A private surface of Spark. Thread-safe.

    Args:
        name: the surface's name in error messages; normally the name of the module that uses the surface.
        used_for: the features that need the surface, in the users' terms.
        needs: the parts of the surface. Whether Spark has them is checked when a session starts.
        tried: tries the surface, and returns a description of what doesn't work, or '' if everything works. Called
            before the surface is first used.
        otherwise: what happens if the surface is missing, in words; '' if the features are then refused.
        always: whether every job needs the surface. If so, a session without the surface doesn't start.
    """

    def __init__(
        self,
        name: str,
        used_for: str,
        needs: Sequence[Need] = (),
        *,
        tried: Callable[[SparkSession], str] = lambda _: "",
        otherwise: str = "",
        always: bool = False,
    ) -> None:
        self.name = name
        self.used_for = used_for
        self.needs = tuple(needs)
        self.tried = tried
        self.otherwise = otherwise
        self.always = always
        self._there: tuple[object, Probe] | None = None
        self._probed: tuple[object, Probe] | None = None

    def look(self, spark: SparkSession) -> Probe:
        """Whether this Spark has all parts of the surface. Checked once per session. But if a check takes too long, the
        surface counts as missing, and the next call checks again.
        """
        there = self._there
        if there is None or there[0] is not spark.sparkContext:
            missing = _within(DEADLINE, partial(self._missing, spark))
            if missing is None:
                return self._in_vain(DEADLINE)
            there = self._looked(spark, missing)
        return there[1]

    @property
    def is_in_pyspark(self) -> bool:
        """Whether PySpark has the surface's Python parts. Works even before a session starts."""
        return not any(each.missing(None) for each in self.needs if isinstance(each, PythonName))

    def probe(self, spark: SparkSession) -> Probe:
        """Whether this Spark has the surface, and the surface works as expected. Tried once per session. But if a check
        or a trial takes too long, the surface counts as missing, and the next call repeats the check or the trial.
        """
        probed = self._probed
        if probed is None or probed[0] is not spark.sparkContext:
            found = self.look(spark)
            if not found.works:
                return found
            missing = _within(TRIED_WITHIN, partial(self.tried, spark))
            if missing is None:
                return self._in_vain(TRIED_WITHIN)
            probed = self._probed = spark.sparkContext, replace(found, missing=missing)
        return probed[1]

    def works(self, spark: SparkSession) -> bool:
        """Whether this Spark has the surface, and the surface works. If not, the caller must do what ``otherwise``
        says.
        """
        return self.probe(spark).works

    def insist(self, spark: SparkSession) -> None:
        """Raise UnsupportedSparkError unless this Spark has the surface, and the surface works as expected."""
        probe = self.probe(spark)
        if not probe.works:
            raise probe.refusal()

    def forget(self) -> None:
        """Forget all results, so that the surface is checked again."""
        self._there = self._probed = None

    def look_here(self, spark: SparkSession) -> None:
        """Check in this thread, without a deadline, whether this Spark has all parts of the surface. After this,
        :meth:`latest` returns the result.
        """
        self._looked(spark, _answer(partial(self._missing, spark)))

    def latest(self, spark: SparkSession) -> Probe:
        """The result of this session's last check of the parts. If there is none yet, the surface counts as missing."""
        there = self._there
        return there[1] if there is not None and there[0] is spark.sparkContext else self._in_vain(DEADLINE)

    def _in_vain(self, seconds: float) -> Probe:
        return Probe(self, pyspark.__version__, f"it wasn't found within {seconds:g} s")

    def _looked(self, spark: SparkSession, missing: str) -> tuple[object, Probe]:
        self._there = spark.sparkContext, Probe(self, pyspark.__version__, missing)
        return self._there

    def _missing(self, spark: SparkSession) -> str:
        return next(filter(None, (each.missing(spark) for each in self.needs)), "")


def _class_file(spark: SparkSession, name: str) -> ClassFile | None:
    if name not in _files:
        data = java.class_file(spark, name)
        _files[name] = None if data is None else class_files.parsed(data)
    return _files[name]


def look(spark: SparkSession, surfaces: Sequence[Surface]) -> list[Probe]:
    """For each of the surfaces, in order, whether a session's Spark has all parts of the surface. The surfaces are
    checked in a single thread, because each thread would need its own connection to Java. A surface without a result
    after :data:`DEADLINE` seconds counts as missing.
    """

    def look_for_all() -> None:
        for each in surfaces:
            each.look_here(spark)

    thread = threading.Thread(target=look_for_all, name="probes Spark", daemon=True)
    thread.start()
    thread.join(DEADLINE)
    return [each.latest(spark) for each in surfaces]


def _within(seconds: float, ask: Callable[[], str]) -> str | None:
    """The result of ``ask``; None if it takes longer than ``seconds``."""
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_answer(ask)), name="probes Spark", daemon=True)
    thread.start()
    thread.join(seconds)
    return said[0] if said else None


def _answer(ask: Callable[[], str]) -> str:
    """The result of ``ask`` or, if it raises an exception, a description of the exception."""
    try:
        return ask()
    except Exception as error:
        lines = str(error).strip().splitlines()
        return f"looking for it failed with {type(error).__name__}{f': {lines[0]}' if lines else ''}"
