"""Places tasks in seats so that there is little traffic across racks. Tasks that read the same partitions are in few
seats.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.model.task import Task
from anabranch.planning.assignment import placement
from anabranch.planning.assignment.racks.network import Network
from anabranch.planning.assignment.racks.problem import Partition

__all__ = ["Member", "place"]

_Piece = tuple[tuple[str, int], ...]
"""For each seat that gets tasks of a group, how many of the group's tasks it gets."""


@dataclass(frozen=True)
class Member:
    """A task of one stage. ``name`` is unique among all stages. ``reads`` are the task's partitions whose racks are
    considered in the placement. ``home`` is the task's former seat, or None if the task is new.
    """

    name: str
    task: Task
    reads: tuple[Partition, ...]
    home: str | None


def place(
    members: Sequence[Member],
    racks: Mapping[str, str | None],
    load: Mapping[str, int],
    traffic_cost: int,
    move_cost: int,
) -> tuple[dict[str, str], float]:
    """Place the members. Returns each member's seat, by name, and the total cost.

    A *group* consists of the tasks that read the same partitions. A seat with any task of a group reads all partitions
    of the group. :func:`placement.place` makes two balanced placements: one that moves few tasks, and one that spreads
    each group over few racks. The two placements are compared by the average number of seats that read a partition. If
    these numbers differ, the placement with the larger number is dropped. Within each remaining placement, groups with
    equally many tasks and equally many partitions swap places so that the total cost is as low as possible. The
    cheapest result is returned.

    Args:
        racks: the rack of each seat.
        load: how many tasks of other stages each seat has.
        traffic_cost: the cost, per unit of weight, of a partition that a seat reads from another rack.
        move_cost: the cost of a task that moves.
    """
    tasks = [member.task for member in members]
    homes = {member.task.name: member.home for member in members if member.home is not None}
    by_rack = {seat: (racks[seat] or "", len(seat), seat) for seat in racks}
    renamed = {seat: f"{number:06}" for number, seat in enumerate(sorted(racks, key=lambda seat: by_rack[seat]))}
    seat_of = {name: seat for seat, name in renamed.items()}
    fresh = placement.place(tasks, seat_of, load={renamed[seat]: load.get(seat, 0) for seat in racks})
    ways = [
        placement.place(tasks, racks, homes, load),
        {task: seat_of[name] for task, name in fresh.items()},
    ]
    fewest = min(placement.consumption(tasks, way) for way in ways)
    found = [
        _permuted(members, way, racks, traffic_cost, move_cost)
        for way in ways
        if placement.consumption(tasks, way) == fewest
    ]
    return min(found, key=lambda each: each[1])


def _permuted(
    members: Sequence[Member], way: Mapping[str, str], racks: Mapping[str, str | None], traffic_cost: int, moves: int
) -> tuple[dict[str, str], float]:
    """The cheapest placement that :func:`place` can make from the placement ``way``, and the cost of the result. Groups
    that have equally many tasks and read equally many partitions can swap places. The tasks of a group can swap seats.
    """
    groups: dict[tuple[tuple[str, int], ...], list[Member]] = defaultdict(list)
    for member in sorted(members, key=lambda each: each.name):
        key = sorted((f"{ssp.system}/{ssp.stream}", ssp.partition) for ssp in member.task.ssps)
        groups[tuple(dict.fromkeys(key))].append(member)
    alike: dict[tuple[int, int], list[list[Member]]] = defaultdict(list)
    for partitions, group in groups.items():
        alike[len(partitions), len(group)].append(group)
    placed: dict[str, str] = {}
    cost = 0
    for several in alike.values():
        pieces = [_piece(Counter(way[each.task.name] for each in group)) for group in several]
        for group, piece, its_cost in _matched(several, Counter(pieces), racks, traffic_cost, moves):
            placed.update(_filled(group, piece))
            cost += its_cost
    return placed, cost


def _piece(counts: Mapping[str, int]) -> _Piece:
    return tuple(sorted(counts.items()))


def _matched(
    groups: Sequence[list[Member]],
    pieces: Mapping[_Piece, int],
    racks: Mapping[str, str | None],
    traffic_cost: int,
    move_cost: int,
) -> list[tuple[list[Member], _Piece, int]]:
    """Give each group one piece, at the least total cost. Returns each group with its piece and the cost of the pair.

    The pieces are found by solving a network-flow problem. In the network, a group has an arc to each piece that
    contains a former seat of the group's tasks. The other pieces are represented by one arc for each combination of
    racks, because the group's cost is the same in all of these pieces that are in the same racks.

    Args:
        groups: groups that read equally many partitions and have equally many tasks.
        pieces: how many groups get each piece; in total, as many as there are groups.
        racks: the rack of each seat.
        traffic_cost: the cost, per unit of weight, of a partition that a seat reads from another rack.
        move_cost: the cost of a task that moves.
    """
    kinds = sorted(pieces)
    sets = sorted({_racks_of(kind, racks) for kind in kinds})
    owner = [sets.index(_racks_of(kind, racks)) for kind in kinds]
    with_seat: dict[str, list[int]] = defaultdict(list)
    for number, kind in enumerate(kinds):
        for seat, _ in kind:
            with_seat[seat].append(number)
    tails, heads, costs = [], [], []
    for number, group in enumerate(groups):
        held = Counter(member.home for member in group if member.home is not None)
        far = {rack: _far(group, rack) * traffic_cost for rack in {rack for each in sets for rack in each}}
        moves = sum(held.values()) * move_cost
        for place, each in enumerate(sets):
            tails.append(number)
            heads.append(place)
            costs.append(sum(far[rack] for rack in each) + moves)
        for near in sorted({each for seat in held for each in with_seat.get(seat, ())}):
            stays = sum(min(count, held[seat]) for seat, count in kinds[near])
            tails.append(number)
            heads.append(len(sets) + near)
            costs.append(sum(far[rack] for rack in sets[owner[near]]) + moves - stays * move_cost)
    net = Network(sum(costs) + 1)
    group_nodes = net.nodes(len(groups), 1)
    set_nodes = net.nodes(len(sets))
    kind_nodes = net.nodes(len(kinds), [-pieces[kind] for kind in kinds])
    ends = np.concatenate([set_nodes, kind_nodes])
    chosen = net.arcs(group_nodes[tails], ends[heads], 1, costs=(costs,))
    onward = net.arcs(set_nodes[owner], kind_nodes, [pieces[kind] for kind in kinds])
    flow = net.solve()
    assert flow is not None, "there are as many pieces as groups"
    left: dict[int, list[int]] = defaultdict(list)
    for place, count in enumerate(flow[onward].tolist()):
        left[owner[place]] += [place] * count
    found = []
    for arc in np.flatnonzero(flow[chosen]).tolist():
        place = heads[arc] - len(sets) if heads[arc] >= len(sets) else left[heads[arc]].pop(0)
        found.append((groups[tails[arc]], kinds[place], costs[arc]))
    return found


def _racks_of(piece: _Piece, racks: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(sorted(racks[seat] or "" for seat, _ in piece))


def _far(group: Sequence[Member], rack: str) -> int:
    """The total weight of the group's partitions that a seat in ``rack`` must read from other racks. (If a seat has any
    task of the group, the seat reads all partitions of the group.)"""
    return int(sum(each.weight for each in group[0].reads if rack not in each.racks))


def _filled(group: Sequence[Member], piece: _Piece) -> dict[str, str]:
    """A seat of the piece for each task of a group. If the task's former seat belongs to the piece and has room, the
    task stays there. Otherwise, the task gets another seat of the piece that has room.
    """
    room = dict(piece)
    placed = {}
    for member in group:
        if member.home is not None and room.get(member.home):
            placed[member.name] = member.home
            room[member.home] -= 1
    left = [seat for seat, count in room.items() for _ in range(count)]
    others = [member.name for member in group if member.name not in placed]
    return {**placed, **dict(zip(others, left, strict=True))}
