"""``anabranch expand``: adapts a job at once to partitions that were added to its inputs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from anabranch import config as configuration
from anabranch.cli import connect, haste, options, progress, scale
from anabranch.protocol.commands import ExpandRequest


def expand(
    job: options.Job,
    timeout: options.Timeout = 300.0,
    now: haste.Now = False,
    detach: options.Detach = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Adapt a running job to partitions that were added to its inputs, and wait for it. Ctrl-C ends only the waiting.

    The coordinator checks for this on its own, every [job] expansion_check.
    """
    with connect.client(configuration.load(config).coordinator, job) as client:
        told = client.expand(job, wished(now=now))
        said = f"generation {told.generation}"
        if told.partitions:
            progress.say(f"job {job}: {listed(told.partitions)}")
            haste.said(now)
            said += scale.followed(client, job, told, None if detach else timeout)
        else:
            said += ": it has all partitions of its inputs already"
    scale.tell(job, told, said, json)


def wished(dry: bool = False, now: bool = False) -> ExpandRequest:
    """What is asked for."""
    return ExpandRequest(request=uuid.uuid4().hex, dry=dry, now=now)


def listed(partitions: Mapping[str, int]) -> str:
    """The partition counts of some streams."""
    return ", ".join(f"{stream} has {count} partitions" for stream, count in partitions.items())
