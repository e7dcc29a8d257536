"""Finds the loads (numbers of standbys) that are closest to the containers' shares.

The distance is the sum over containers of d * d / slots, where d is how far a load is below the floor or above the
ceiling of the container's share. The distance is convex, so a further standby never costs less than the previous one.
What each further standby adds to a container's term is a *slope* of the container.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anabranch.planning.assignment.racks.network import Network, Whole
from anabranch.planning.assignment.racks.shares import Bounds

__all__ = ["Slopes", "groups_nearest", "nearest"]

_FINEST = 720_720
"""A number that is divisible by all numbers from 1 to 16. If the least common multiple of the slots is larger than
``_FINEST``, each container's factor 1 / slots is rounded down to a multiple of 1 / ``_FINEST``, but not to 0.
"""


@dataclass(frozen=True)
class Slopes:
    """What a further standby in a container *costs*: how much it adds to the distance of the loads from the containers'
    shares. Standbys are placed in steps. The cost depends on how many standbys the container has received in this step
    and in earlier ones.

    Each attribute has one number per container. ``lower``, ``upper`` and ``most`` count only the standbys of this step.

    Attributes:
        lower: up to this number of standbys, a further standby brings the container closer to its share, so the cost of
            the further standby is negative.
        upper: from ``lower`` up to this number of standbys, a further standby costs nothing. Beyond this number, the
            cost of a further standby is positive.
        beyond: how many standbys from earlier steps exceed the ceiling of the container's share.
        most: the maximum number of standbys that the container can get in this step.
        weight: the factor of the container's term of the distance: 1 / slots, scaled to a whole number.
    """

    lower: Whole
    upper: Whole
    beyond: Whole
    most: Whole
    weight: Whole

    @classmethod
    def of(cls, share: Bounds, prior: Whole, most: Whole, slots: Whole) -> Slopes:
        unit = math.lcm(*set(slots.tolist()))
        weight = np.maximum(min(unit, _FINEST) // slots, 1)
        left = share.less(prior)
        return cls(left.lower, np.maximum(left.upper, 0), np.maximum(-left.upper, 0), most, weight)

    def up_to(self, slope: int) -> Whole:
        """How many standbys each container can take at a cost of at most ``slope`` each."""
        if slope < 0:
            short = -(-(-(slope // self.weight) + 1) // 2)
            few: Whole = np.clip(self.lower - short + 1, 0, self.most)
            return few
        over = (slope // self.weight + 1) // 2 - self.beyond
        many: Whole = np.minimum(self.upper + np.maximum(over, 0), self.most)
        return many

    def far(self, loads: Whole) -> int:
        """The distance of these loads from the containers' shares, scaled as in ``weight``, minus the part that is due
        to ``beyond`` alone."""
        short = np.maximum(self.lower - loads, 0)
        over = np.maximum(loads - self.upper, 0) + self.beyond
        return int(((short**2 + over**2 - self.beyond**2) * self.weight).sum())

    def least(self, count: int) -> int:
        """The smallest slope for which the containers can take ``count`` standbys that each cost no more than this
        slope.
        """
        low, high = -1, 1
        while self.up_to(low).sum() >= count:
            low *= 2
        while self.up_to(high).sum() < count:
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.up_to(middle).sum() >= count else (middle, high)
        return high

    def only(self, containers: Whole) -> Slopes:
        return Slopes(*(each[containers] for each in (self.lower, self.upper, self.beyond, self.most, self.weight)))

    def steps(self, highest: int) -> tuple[Whole, Whole, Whole]:
        """The slopes up to ``highest``, as three parallel arrays: the containers, their slopes, and how many standbys
        of the container have this slope.
        """
        containers, slopes, counts = [], [], []
        for number in range(len(self.weight)):
            weight, lower, upper = int(self.weight[number]), int(self.lower[number]), int(self.upper[number])
            most, beyond = int(self.most[number]), int(self.beyond[number])
            top = int(self.up_to(highest)[number])
            under = -(2 * np.arange(lower, 0, -1)[:most] - 1) * weight
            over = (2 * (beyond + np.arange(1, top - upper + 1)) - 1) * weight
            level = max(0, min(upper, most) - lower)
            slope = np.concatenate([under, [0] * (level > 0), over]).astype(np.int64)
            count = np.concatenate([np.ones_like(under), [level] * (level > 0), np.ones_like(over)]).astype(np.int64)
            containers.append(np.full(len(slope), number))
            slopes.append(slope)
            counts.append(count)
        return np.concatenate(containers), np.concatenate(slopes), np.concatenate(counts)


def nearest(slopes: Slopes, count: int) -> Bounds:
    """The bounds of the containers' loads. Loads with ``count`` standbys in total are closest to the containers' shares
    if and only if they are within these bounds. This holds if nothing but ``slopes.most`` limits a container's load.
    """
    slope = slopes.least(count)
    return Bounds(slopes.up_to(slope - 1), slopes.up_to(slope))


def groups_nearest(
    slopes: Slopes, place_of: Whole, sizes: Whole, open_: Whole, copies: int
) -> tuple[Bounds, Whole, Whole]:
    """Like :func:`nearest`, but tasks can have standbys only in certain places, and all standbys of a task are in
    different places. A *group* consists of the tasks with the same possible places.

    Args:
        place_of: the place of each container.
        sizes: the number of tasks in each group.
        open_: 1 where the tasks of a group (row) can have standbys in a place (column), otherwise 0.
        copies: the number of standbys of each task.

    Returns:
        The bounds on the containers' loads, and the lower and the upper bounds on the number of standbys that a group
            (row) has in a place (column). Loads are closest to the shares if and only if they satisfy all of these
            bounds.
    """
    groups, places = open_.shape
    count = int(sizes.sum())
    inside = [np.flatnonzero(place_of == place) for place in range(places)]
    steps: list[tuple[Whole, Whole]] = []
    for place in range(places):
        own = slopes.only(inside[place])
        reachable = min(count, int(own.most.sum()))
        _, slope, number = own.steps(own.least(reachable) if reachable else -1)
        distinct, where = np.unique(slope, return_inverse=True)
        together = np.zeros(len(distinct), np.int64)
        np.add.at(together, where, number)
        steps.append((distinct, together))
    net = Network(0)
    tails = net.nodes(groups, sizes * copies)
    heads = net.nodes(places)
    sink = net.nodes(1, -count * copies)
    pairs = net.arcs(tails[:, None], heads, sizes[:, None] * open_)
    ends = [net.arcs(heads[place], sink, number, costs=(slope,)) for place, (slope, number) in enumerate(steps)]
    found = net.tight()
    assert found is not None, "there are as many places as copies"
    lower, upper = found
    bounds = Bounds(np.zeros_like(place_of), np.zeros_like(place_of))
    for place, ((slope, _), end) in enumerate(zip(steps, ends, strict=True)):
        own = slopes.only(inside[place])
        for side, reached in ((bounds.lower, slope[lower[end] > 0]), (bounds.upper, slope[upper[end] > 0])):
            if len(reached):
                side[inside[place]] = own.up_to(int(reached.max()))
    return bounds, lower[pairs].reshape(groups, places), upper[pairs].reshape(groups, places)
