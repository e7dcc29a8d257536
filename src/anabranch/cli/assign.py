"""``anabranch assign``: moves tasks to containers in the racks that hold the tasks' data, explains the assignment of a
job's tasks, and solves assignment problems from files."""

from __future__ import annotations

import time
import uuid
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, output, progress, scale, tables
from anabranch.cli import traffic as pictures
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.errors import NotFoundError, UsageError
from anabranch.planning.assignment.racks.matrix import Matrix
from anabranch.planning.assignment.racks.problem import Answer, Problem
from anabranch.protocol.commands import AssignRequest, ScaleResult

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Assign tasks to containers by the racks of their data.")


class Strategy(StrEnum):
    NONE = "none"
    MIN_TRAFFIC = "min_traffic"
    BALANCE_SUBTOPOLOGY = "balance_subtopology"


@app.command()
def solve(
    problem: Annotated[Path, typer.Argument(help="A file with the problem, as JSON.")],
    strategy: Annotated[Strategy | None, typer.Option(help="The strategy to use instead of the problem's own.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the traffic from rack to rack as a picture.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with a reason for each task.")] = False,
) -> None:
    """Solve a problem from a file. Needs no job and no Spark."""
    from anabranch.planning.assignment.racks import matrix, reasons, solver
    from anabranch.planning.assignment.racks import problem as problems

    asked = problems.read(_bytes(problem), str(problem))
    if strategy is not None:
        asked = msgspec.structs.replace(asked, strategy=strategy.value)
    begun = time.perf_counter()
    answer = solver.solve(asked)
    answer = msgspec.structs.replace(answer, seconds=round(time.perf_counter() - begun, 3))
    answer = reasons.compared(asked, answer)
    traffic = matrix.matrix(asked, answer)
    if svg is not None:
        if traffic is None:
            raise UsageError(f"there is no traffic to draw: {answer.why_not}", "leave out --svg, or name all racks")
        pictures.write(svg, matrix.svg(traffic))
    if json:
        answer = msgspec.structs.replace(answer, why=reasons.explained(asked, answer))
        typer.echo(msgspec.json.encode(answer))
        return
    _show(asked, answer)
    if traffic is not None:
        _show_traffic(traffic)


@app.command("apply")
@with_change_options
def apply(
    job: options.Job,
    *,
    chosen: ChangeOptions,
) -> None:
    """Move tasks of a running job to the containers that suit the present racks, and wait until that is done.

    Ctrl-C stops only the waiting. `plan assign JOB` shows the moves first.
    """
    with connect.client(configuration.load(chosen.config).coordinator, job) as client:
        told = client.assign(job, wished(now=chosen.now))
        if told.why_not:
            progress.say(f"racks are ignored when tasks are placed: {told.why_not}")
        said = f"generation {told.generation}"
        if told.lanes or told.repeated:
            if told.lanes:
                progress.say(f"job {job}: {told.moved} task(s) get another container{_saved(told)}")
            haste.said(chosen.now)
            said += scale.followed(client, job, told, chosen.patience)
        else:
            said += ": all tasks are where they should be"
    scale.tell(job, told, said, chosen.json)


@app.command()
def explain(
    job: options.Job,
    task: Annotated[str, typer.Argument(help="One of the job's tasks: anabranch describe JOB lists them.")],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Explain why a task of a running job is where it is, or where it should be."""
    with connect.client(configuration.load(config).coordinator, job) as client:
        found = client.assignment(job)
    its = {stage: tasks[task] for stage, tasks in found.tasks.items() if task in tasks}
    if not its:
        raise NotFoundError(f"job {job} has no task {task}", f"anabranch describe {job} lists its tasks")
    if json:
        output.as_json({s: one.to_builtins() for s, one in its.items()})
        return
    for stage, one in its.items():
        where = f"stage {stage}, {task}: in seat {one.seat}, rack {found.racks[one.seat] or 'not known'}"
        typer.echo(f"{where}; it should be in seat {one.should}" if one.should != one.seat else where)
        typer.echo(f"  {one.why}")
    if found.strategy != "none" and not found.why_not:
        proof = "none costs less" if found.cost == found.lower_bound else f"none costs less than {found.lower_bound:g}"
        typer.echo(f"the best placement of all tasks costs {found.cost:g}; {proof}")
    if any(one.should != one.seat for one in its.values()):
        typer.echo(f"anabranch assign apply {job} moves the tasks that should be in other seats")


def wished(dry: bool = False, now: bool = False) -> AssignRequest:
    """The request to assign all tasks again."""
    return AssignRequest(request=uuid.uuid4().hex, dry=dry, now=now)


def _saved(told: ScaleResult) -> str:
    if told.before is None or told.after is None:
        return ""
    return f"; partitions read across racks: {told.before.across} → {told.after.across} of {told.after.total}"


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no file {path}", 'see "Assignment problems" in the documentation for the format'
        ) from error
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}", "name a file with a problem as JSON") from error


def _show_traffic(traffic: Matrix) -> None:
    typer.echo("read from (columns) by racks (rows):")
    table = Table()
    for column in ("", *traffic.sources):
        table.add_column(column, justify="right")
    for reader in traffic.readers:
        table.add_row(reader, *(f"{traffic.weights.get((source, reader), 0):g}" for source in traffic.sources))
    tables.wide().print(table)


def _show(problem: Problem, answer: Answer) -> None:
    table = Table()
    for column in ("container", "rack", "slots", "active", "standby"):
        table.add_column(column)
    for container in sorted(problem.containers, key=lambda container: container.id):
        loads = (answer.loads[container.id], answer.standby_loads[container.id])
        table.add_row(container.id, container.rack or "", str(container.slots), *map(str, loads))
    tables.wide().print(table)
    if answer.why_not:
        typer.echo(f"racks are not used: {answer.why_not}")
    if answer.traffic_by_role:
        roles = f"active {answer.traffic_by_role.active:g}, standby {answer.traffic_by_role.standby:g}"
        typer.echo(f"traffic across racks: {answer.traffic:g} ({roles})")
    roles = f"active {answer.moved_by_role.active}, standby {answer.moved_by_role.standby}"
    typer.echo(f"moved: {answer.moved} ({roles})")
    if answer.needed_moves is not None and answer.needed_moves < answer.moved_by_role.active:
        typer.echo(
            f"  balance needs {answer.needed_moves} moves of active tasks; the others save {answer.saved_by_moves:g}"
        )
    proof = "no assignment costs less" if answer.gap == 0 else f"none costs less than {answer.lower_bound:g}"
    typer.echo(f"cost: {answer.cost:g}; {proof}")
