"""Task names: how the built-in groupers name tasks, and how a name is parsed (docs/reference/glossary.md, "task")."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from dataclasses import dataclass

from anabranch.errors import UsageError
from anabranch.model.factor import FACTORS
from anabranch.model.ssp import WHOLE

__all__ = ["TaskKind", "TaskName", "divided", "parse"]

_NUMBER = "(?:0|[1-9][0-9]*)"
_NAME = re.compile(
    rf"(?:(?P<kind>Partition|Group|Task)_|(?P<ssp>SystemStreamPartition)_(?P<system>[^/]+)/(?P<stream>[^/]+)/)"
    rf"(?P<number>{_NUMBER})(?:-(?P<bucket>{_NUMBER})-(?P<factor>{_NUMBER}))?"
)

_FACTORS = {str(factor): factor for factor in FACTORS[1:]}
_BUCKETS = {str(bucket): bucket for bucket in range(FACTORS[-1])}


class TaskKind(enum.StrEnum):
    """The first word of a task's name. Each built-in grouper uses a different word."""

    PARTITION = "Partition"
    GROUP = "Group"
    SSP = "SystemStreamPartition"
    ORDINAL = "Task"


@dataclass(frozen=True, kw_only=True)
class TaskName:
    """The parts of a task's name. ``str`` returns the name, and :func:`parse` is the inverse.

    ``number`` is the number of the partition, group or task. Only a name of the kind ``TaskKind.SSP`` has ``system``
    and ``stream``. A task that isn't virtual has the bucket -1 and the factor 1.

    Raises:
        UsageError: a part is invalid, such as a bucket that isn't below the factor.
    """

    kind: TaskKind
    number: int
    system: str = ""
    stream: str = ""
    bucket: int = WHOLE
    factor: int = 1

    def __post_init__(self) -> None:
        named = all(name and "/" not in name for name in (self.system, self.stream))
        streamless = not self.system and not self.stream
        whole = self.factor == 1 and self.bucket == WHOLE
        virtual = self.factor in FACTORS[1:] and 0 <= self.bucket < self.factor
        if (
            self.number < 0
            or not (named if self.kind is TaskKind.SSP else streamless)
            or not (whole or (virtual and self.kind is not TaskKind.ORDINAL))
        ):
            raise UsageError(
                f"no task is called {str(self)!r}",
                "a bucket is below its factor, a power of two from 2 to 1024; names have no slash",
            )

    def __str__(self) -> str:
        stream = f"{self.system}/{self.stream}/" if self.kind is TaskKind.SSP else ""
        bucket = "" if (self.bucket, self.factor) == (WHOLE, 1) else f"-{self.bucket}-{self.factor}"
        return f"{self.kind}_{stream}{self.number}{bucket}"

    def parts(self, factor: int) -> list[str]:
        """The names of this task's virtual tasks, in the order of their buckets. With factor 1, the only name is the
        task's own name. Raises UsageError if the task can't be divided by this factor.
        """
        if factor == 1:
            return [str(self)]
        if self.bucket != WHOLE:
            raise UsageError(f"{self} can't be divided: it is a virtual task already", f"divide {self.base}")
        if factor not in FACTORS or self.kind is TaskKind.ORDINAL:
            dataclasses.replace(self, bucket=0, factor=factor)  # raises the error
        return [f"{self}-{bucket}-{factor}" for bucket in range(factor)]

    @property
    def base(self) -> TaskName:
        """The task itself; for a virtual task, the task that is divided into buckets."""
        return TaskName(kind=self.kind, number=self.number, system=self.system, stream=self.stream)

    @property
    def order(self) -> tuple[str, str, str, int, int, int]:
        """The sort key of names: by number, so that ``Partition_10`` comes after ``Partition_9``."""
        return (self.kind, self.system, self.stream, self.number, self.factor, self.bucket)


@functools.lru_cache(maxsize=1 << 16)  # each plan of a job parses the same names
def parse(text: str) -> TaskName:
    """The inverse of ``str``. Only strings that ``str`` reproduces exactly are accepted.

    Raises:
        UsageError: the text isn't a task's name.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not the name of a task",
            "write Partition_3, Group_3-1-2 (bucket 1 of 2), SystemStreamPartition_kafka/flights/3 or Task_0",
        )
    parts = found.groupdict()
    return TaskName(
        kind=TaskKind(parts["kind"] or parts["ssp"]),
        number=int(parts["number"]),
        system=parts["system"] or "",
        stream=parts["stream"] or "",
        bucket=WHOLE if parts["bucket"] is None else int(parts["bucket"]),
        factor=1 if parts["factor"] is None else int(parts["factor"]),
    )


def divided(text: str) -> tuple[str, int, int]:
    """For a virtual task's name, the name of the task that is divided, the bucket, and the factor. For any other name,
    the name itself, 0 and 1. Names that :func:`parse` refuses count as other names.
    """
    base, *numbers = text.rsplit("-", 2)
    if len(numbers) == 2 and (factor := _FACTORS.get(numbers[1])) is not None and _is_divisible(base):
        bucket = _BUCKETS.get(numbers[0], factor)
        if bucket < factor:
            return base, bucket, factor
    return text, 0, 1


@functools.lru_cache(maxsize=1 << 16)
def _is_divisible(text: str) -> bool:
    try:
        name = parse(text)
    except UsageError:
        return False
    return name.bucket == WHOLE and name.kind is not TaskKind.ORDINAL
