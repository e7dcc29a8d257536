"""An assignment problem, in the form of PROBLEM.json, and its answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from anabranch.errors import ConfigError, UsageError

__all__ = ["Answer", "ByRole", "Container", "Partition", "Problem", "Task", "read"]

_Cost = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    pass


class Container(_Record, frozen=True, kw_only=True):
    """A place where tasks can run. A task and its standbys should be spread over racks, and over the values of each
    tag, such as ``zone``.
    """

    id: str
    rack: str | None = None
    slots: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    tags: dict[str, str] = {}


class Partition(_Record, frozen=True, kw_only=True):
    """A partition that a task or its standbys read. ``racks`` are the racks of the partition's replicas, with None for
    a broker without a rack. If the racks aren't known, ``racks`` is empty.
    """

    stream: str
    partition: int
    racks: tuple[str | None, ...] = ()
    weight: int | float = 1


class Task(_Record, frozen=True, kw_only=True):
    """A task to assign.

    Attributes:
        partitions: the partitions that the active task reads.
        state_partitions: the partitions from which the task's standbys are kept up to date.
        on: the container in which the task runs; None if the task is new.
        standby_on: the containers that have standbys of the task.
    """

    name: str
    stage: str = "0"
    stateful: bool = False
    partitions: tuple[Partition, ...] = ()
    state_partitions: tuple[Partition, ...] = ()
    on: str | None = None
    standby_on: tuple[str, ...] = ()


class Problem(_Record, frozen=True, kw_only=True):
    """What to assign, and by which rules.

    Attributes:
        standbys: how many standbys each stateful task has, at most as many as there are other containers.
        strategy: ``min_traffic`` balances all tasks together, with little traffic across racks; ``balance_subtopology``
            also balances the tasks of each stage; ``none`` ignores traffic.
        loads: which containers get one task more if the tasks can't be divided evenly: with ``flexible``, the
            containers in which an extra task costs least; with ``fixed``, the first containers by id, as in KIP-925.
        mode: whether all tasks are placed before the standbys (``sequential``) or together with them (``joint``).
        traffic_cost: the cost of a unit of weight that is read from another rack.
        non_overlap_cost: the cost of a task or standby that moves.
        standby_order: what comes first for standbys: spread (``reliability``) or ``cost``.
        reliable_standbys: the number of each task's standbys for which spread comes first; for the others, cost comes
            first. If this is given, ``standby_order`` is ignored.

    Raises:
        ConfigError: there is no container, a name is used for two containers or for two tasks, or a task names a
            partition twice or with an invalid weight. With ``balance_subtopology``, this error is also raised if a
            stage can't be balanced because it has both stateful and stateless tasks.
    """

    containers: tuple[Container, ...]
    tasks: tuple[Task, ...]
    standbys: Annotated[int, Meta(ge=0)] = 0
    strategy: Literal["none", "min_traffic", "balance_subtopology"] = "min_traffic"
    loads: Literal["flexible", "fixed"] = "flexible"
    mode: Literal["sequential", "joint"] = "sequential"
    traffic_cost: _Cost = 10
    non_overlap_cost: _Cost = 1
    standby_order: Literal["reliability", "cost"] = "reliability"
    reliable_standbys: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if not self.containers:
            raise ConfigError("there is no container to place tasks in", "name one or more in containers")
        _once("container", (container.id for container in self.containers))
        _once("task", (task.name for task in self.tasks))
        for task in self.tasks:
            for partitions in (task.partitions, task.state_partitions):
                if partitions:
                    _check(task, partitions)
        if self.strategy == "balance_subtopology":
            kinds = {(task.stage, task.stateful) for task in self.tasks}
            for stage, stateful in sorted(kinds):
                if not stateful and (stage, True) in kinds:
                    raise ConfigError(
                        f"stage {stage} has stateful and stateless tasks, so balance_subtopology can't place them "
                        "one after the other and balance the stage",
                        "give its stateless tasks a stage of their own, or use min_traffic",
                    )


class ByRole(_Record, frozen=True, kw_only=True):
    active: int | float
    standby: int | float


class Answer(_Record, frozen=True, kw_only=True):
    """The assignment, its cost, and a lower bound on the cost of any assignment by the same rules.

    Attributes:
        active: the container of each task.
        standby: the containers of each task's standbys; empty if the task has none.
        cost: what the strategy minimizes: ``traffic_cost`` * ``traffic`` + ``non_overlap_cost`` * ``moved``. If racks
            aren't known, or with the strategy ``none``, only moves count.
        traffic: the weight of partitions that are read from other racks; None if racks aren't known.
        gap: ``cost`` minus ``lower_bound``.
        moved: how many tasks and standbys move. New tasks, new standbys, and standbys whose container is gone don't
            count.
        needed_moves: how many active tasks must move for the sake of balance, if known; see
            :func:`~anabranch.planning.assignment.racks.reasons.compared`.
        saved_by_moves: the cost that the other moves of active tasks save, compared with the cheapest placement that
            has only the ``needed_moves``.
        loads: the number of active tasks in each container.
        spread: the number of racks (and tag values) that a task and its standbys cover, summed over the tasks with
            standbys.
        most_spread: an upper bound on the ``spread`` of any assignment.
        why: for each task, the reason for its place; see
            :func:`~anabranch.planning.assignment.racks.reasons.explained`.
    """

    active: dict[str, str]
    standby: dict[str, tuple[str, ...]]
    cost: int | float
    traffic: int | float | None
    traffic_by_role: ByRole | None
    lower_bound: int | float
    gap: int | float
    moved: int
    moved_by_role: ByRole
    needed_moves: int | None = None
    saved_by_moves: int | float | None = None
    loads: dict[str, int]
    standby_loads: dict[str, int]
    spread: int
    most_spread: int
    racks_used: bool
    why_not: str | None
    why: dict[str, str] = {}
    seconds: float = 0.0


def read(raw: bytes, name: str = "this") -> Problem:
    """Parse a file's content as a problem. ``name`` is the file's name, for messages.

    Raises:
        UsageError: the content isn't JSON, or isn't a problem. The message says where the error is.
        ConfigError: the problem is invalid; see :class:`Problem`.
    """
    try:
        return msgspec.json.decode(raw, type=Problem)
    except ConfigError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{name} isn't an assignment problem: {error}", '"Assignment problems" in the documentation shows one'
        ) from error


def _once(kind: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(f"there are {count} {kind}s named {name}", f"give each {kind} a name of its own")


def _check(task: Task, partitions: tuple[Partition, ...]) -> None:
    seen = set()
    for one in partitions:
        if not (one.weight >= 0 and (isinstance(one.weight, int) or math.isfinite(one.weight))):
            raise ConfigError(
                f"partition {one.partition} of {one.stream} has weight {one.weight} in task {task.name}",
                "a weight is 0 or more",
            )
        if (one.stream, one.partition) in seen:
            raise ConfigError(
                f"task {task.name} names partition {one.partition} of {one.stream} twice",
                "name it once, with the weight of both",
            )
        seen.add((one.stream, one.partition))
