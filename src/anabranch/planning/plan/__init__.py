"""Makes the complete plan of a deployment."""

from anabranch.planning.plan.lanes import lanes_of
from anabranch.planning.plan.making import make
from anabranch.planning.plan.numbers import incomplete, numbers_of, task_numbers, virtual_of
from anabranch.planning.plan.planned import Output, Plan, PlannedLane
from anabranch.planning.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE, kind
from anabranch.planning.plan.slots import slots_of, task_slots
from anabranch.planning.plan.surroundings import Placement, Surroundings
from anabranch.planning.plan.tasks import check_shuffled, tasks_of

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "Output",
    "Placement",
    "Plan",
    "PlannedLane",
    "Surroundings",
    "check_shuffled",
    "incomplete",
    "kind",
    "lanes_of",
    "make",
    "numbers_of",
    "slots_of",
    "task_numbers",
    "task_slots",
    "tasks_of",
    "virtual_of",
]
