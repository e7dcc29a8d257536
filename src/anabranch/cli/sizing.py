"""``anabranch sizing``: shows metrics by which to choose a job's factor and number of containers, and gives advice."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress, tables
from anabranch.protocol.status import LaneSizing, Sizing

_FIGURES = ("busy", "functions", "lag", "in/s", "read/s", "batch s")


def sizing(
    job: Annotated[str, typer.Argument(help="The name of a running job.")],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show how busy the lanes of a running job are, how far they are behind, and which bucket is the slowest."""
    with connect.client(configuration.load(config).coordinator, job) as client:
        found = client.sizing(job)
    if json:
        output.as_json(found)
        return
    console = tables.wide()
    console.print(f"job {job}: {found.state}, factor {found.factor}, {found.containers} container(s)")
    table = Table()
    for column in ("lane", "container", *_FIGURES, "slowest bucket", "bucket s", "skew"):
        table.add_column(column, justify="left" if column in ("lane", "container", "slowest bucket") else "right")
    for lane in found.lanes:
        slowest = (lane.slowest, f"{lane.slowest_seconds:.1f}", f"{lane.skew:.1f}") if lane.slowest else ("-",) * 3
        rates_seen = (f"{lane.lag:,}", f"{lane.arriving:,.0f}", f"{lane.rows_per_second:,.0f}")
        times = (f"{lane.busy:.0%}", f"{lane.working:.0%}")
        table.add_row(lane.lane, lane.seat, *times, *rates_seen, f"{lane.batch_seconds:.1f}", *slowest)
    console.print(table)
    for lane in found.lanes:
        if lane.batch_progress is not None:
            console.print(
                f"lane {lane.lane}: batch {lane.batch_progress.number}: {progress.batch(lane.batch_progress)}"
            )
        if lane.spent:
            console.print(f"lane {lane.lane}: {progress.spent(lane.spent)}")
        if lane.true_rate and lane.lag:
            console.print(rates(lane, found))
    for text in found.advice:
        console.print(text)
    if len(found.forecasts) > 1:
        console.print(_forecasts(found))
    if found.autoscale:
        console.print(f"autoscale: {found.autoscale}")
    if len(found.allowed) == 1:
        console.print("the job's factor can only be 1")


def _forecasts(found: Sizing) -> Table:
    table = Table(title="with the present load")
    for column in ("factor", "busy", "caught up in", "limited by"):
        table.add_column(column, justify="left" if column == "limited by" else "right")
    for each in found.forecasts:
        factor = f"{each.factor}, as it is" if each.factor == found.factor else str(each.factor)
        wait = "never" if each.catch_up is None else f"{each.catch_up:,.0f} s"
        table.add_row(factor, f"{each.utilisation:,.0%}", wait, each.lane)
    return table


def rates(lane: LaneSizing, job: Sizing) -> str:
    """The lane's rate, the rate that it needs, and the time that it takes to catch up, as text. If another factor is
    proposed, the text also gives the time with that factor."""
    text = (
        f"lane {lane.lane} does {lane.true_rate:,.0f} records per second while it is busy, and needs "
        f"{lane.needed_rate:,.0f} to clear the backlog within {job.target_lag_seconds:,.0f} s: "
        f"{_cleared(lane.catch_up)}"
    )
    if job.proposed in (0, job.factor):
        return text
    return f"{text}; with factor {job.proposed}, {_cleared(lane.then)}, including the change"


def _cleared(seconds: float | None) -> str:
    return "it is never cleared" if seconds is None else f"it is cleared in {seconds:,.0f} s"
