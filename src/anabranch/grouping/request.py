"""The request to a grouper: a stage's inputs with their partition counts, the factor, and the number of containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anabranch.errors import GraphError
from anabranch.model.factor import check_factor
from anabranch.model.ssp import SSP, WHOLE
from anabranch.model.task import Task

__all__ = ["Grouper", "Input", "Request"]


@dataclass(frozen=True)
class Input:
    """A stream that a stage reads, with its partition count. If ``broadcast`` is set, every task reads the whole
    stream.

    Raises:
        GraphError: the stream has no partitions.
    """

    system: str
    stream: str
    partitions: int
    broadcast: bool = False

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise GraphError(
                f"stream {self} has no partitions",
                f"create the stream first: anabranch stream create {self.stream} --partitions 4",
            )

    def __str__(self) -> str:
        return f"{self.system}/{self.stream}"

    def ssp(self, partition: int) -> SSP:
        return SSP(system=self.system, stream=self.stream, partition=partition)

    @property
    def ssps(self) -> tuple[SSP, ...]:
        """All partitions in order, each as a whole SSP."""
        return tuple(self.ssp(partition) for partition in range(self.partitions))


@dataclass(frozen=True, kw_only=True)
class Request:
    """A stage to be grouped. ``inputs`` are in the job's order.

    Raises:
        GraphError: there are no inputs, all inputs are broadcast, or a stream is named twice.
        ConfigError: the factor isn't allowed.
    """

    stage: str
    inputs: tuple[Input, ...]
    factor: int = 1
    containers: int = 1

    def __post_init__(self) -> None:
        check_factor(self.factor)
        if not self.grouped:
            raise GraphError(
                f"stage {self.stage!r} has {'only broadcast' if self.inputs else 'no'} inputs",
                "read at least one stream that isn't broadcast: those make no task",
            )
        names = [str(stream) for stream in self.inputs]
        for name in names:
            if names.count(name) > 1:
                raise GraphError(
                    f"stage {self.stage!r} has stream {name} as an input more than once",
                    "read it once and let several operators take it",
                )

    @property
    def grouped(self) -> tuple[Input, ...]:
        """The inputs whose partitions form tasks: all inputs that aren't broadcast."""
        return tuple(stream for stream in self.inputs if not stream.broadcast)

    @property
    def broadcast(self) -> tuple[SSP, ...]:
        """The SSPs that every task reads in addition to its own."""
        return tuple(ssp for stream in self.inputs if stream.broadcast for ssp in stream.ssps)

    def buckets(self, ssp: SSP) -> Iterator[SSP]:
        """The buckets of a partition, in order; with factor 1, the partition itself."""
        system, stream, partition = ssp.system, ssp.stream, ssp.partition
        for key_bucket in range(self.factor) if self.factor > 1 else (WHOLE,):
            yield SSP(system=system, stream=stream, partition=partition, key_bucket=key_bucket)


Grouper = Callable[[Request], tuple[Task, ...]]
"""A pure function from a request to the tasks of a stage. A job can have a grouper of its own, named as
``module:function``."""
