"""Where the tasks of a running job should be by the racks as they are, and what brings them there. Pure."""

from __future__ import annotations

import dataclasses

import msgspec

from anabranch.assignment import seating
from anabranch.coordinator import changing
from anabranch.coordinator.changing import Generation, Wanted
from anabranch.coordinator.serving import Serving
from anabranch.errors import ConflictError
from anabranch.messages import Assigned, Assignment, Scaled
from anabranch.planning import placing
from anabranch.planning.transition import follow

__all__ = ["assigned", "explained"]


def assigned(serving: Serving, present: Generation, request: str) -> Wanted:
    """What comes of a job whose tasks go where they should be; without lanes, if they are there. Errors as
    :meth:`anabranch.coordinator.wishes.Wishes.assign`."""
    changing.check_changeable(serving)
    if serving.settings.get("job", {}).get("trigger") == "real-time":
        raise ConflictError(
            f"job {serving.job!r} runs in real time: whether its containers have a task slot for each task that comes "
            "to them can't be seen from here",
            "stop it, and start it with [assignment] racks under another name",
        )
    its = {lane.id: lane for lane in serving.lanes}
    seats = serving.placing(present.containers)
    change = follow.following(present.model, present.model.stages, its, present.factor, changing.new_id, seats)
    wanted = changing.wanted(serving, change, "user", "tasks go where they should be by racks", request=request)
    assert isinstance(wanted.told, Scaled)
    was, now = present.model.seats_of_tasks(), change.model.seats_of_tasks()
    moved = sum(now[stage][name] != seat for stage, tasks in was.items() for name, seat in tasks.items())
    return dataclasses.replace(wanted, told=msgspec.structs.replace(wanted.told, moved=moved))


def explained(serving: Serving, present: Generation) -> Assignment:
    """Where tasks are, where they should be, and why."""
    where, rules = serving.where(present.containers), placing.rules(serving.assignment)
    model = present.model
    former = model.seats_of_tasks()
    found = seating.seat(model.stages, former, where, rules)
    why = seating.explained(model.stages, former, where, rules)
    its = {lane.id: lane for lane in serving.lanes}
    change = follow.following(model, model.stages, its, model.factor, changing.new_id, lambda *_: found)
    told = changing.wanted(serving, change, "user", "").told
    assert isinstance(told, Scaled)
    return Assignment(
        job=serving.job,
        strategy=rules.strategy,
        racks=dict(where.seats),
        tasks={
            stage: {
                name: Assigned(seat=seat, should=found.seats[stage][name], why=why[stage][name])
                for name, seat in tasks.items()
            }
            for stage, tasks in former.items()
        },
        cost=found.cost,
        lower_bound=found.lower_bound,
        before=told.before,
        after=told.after,
        why_not=found.why_not,
    )
