"""``anabranch expand``: adapts a job immediately to partitions that were added to its inputs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, progress, scale
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.protocol.commands import ExpandRequest


@with_change_options
def expand(
    job: options.Job,
    *,
    chosen: ChangeOptions,
) -> None:
    """Adapt a running job to partitions that were added to its inputs, and wait until that is done.

    Ctrl-C stops only the waiting. The coordinator also looks for new partitions on its own, every [job]
    expansion_check.
    """
    with connect.client(configuration.load(chosen.config).coordinator, job) as client:
        told = client.expand(job, wished(now=chosen.now))
        said = f"generation {told.generation}"
        if told.partitions or told.repeated:
            if told.partitions:
                progress.say(f"job {job}: {listed(told.partitions)}")
            haste.said(chosen.now)
            said += scale.followed(client, job, told, chosen.patience)
        else:
            said += ": it has all partitions of its inputs already"
    scale.tell(job, told, said, chosen.json)


def wished(dry: bool = False, now: bool = False) -> ExpandRequest:
    """The request to expand."""
    return ExpandRequest(request=uuid.uuid4().hex, dry=dry, now=now)


def listed(partitions: Mapping[str, int]) -> str:
    """The streams with their partition counts, as text."""
    return ", ".join(f"{stream} has {count} partitions" for stream, count in partitions.items())
