"""``anabranch cancel``: undoes a change or a drain that is under way."""

from __future__ import annotations

from anabranch import config as configuration
from anabranch.cli import connect, options, progress, scale


def cancel(
    job: options.Job,
    timeout: options.Timeout = 300.0,
    detach: options.Detach = False,
    config: options.Config = None,
) -> None:
    """Undo a change or a drain that is under way, and wait until that is done. Ctrl-C stops only the waiting."""
    with connect.client(configuration.load(config).coordinator, job) as client:
        client.cancel(job)
        if not detach:
            scale.wait(client, job, timeout)
        model = client.model(job)
    now = f"factor {model.factor}, {len(model.containers)} container(s), generation {model.generation}"
    progress.say(f"job {job}: {'goes back to ' if detach else ''}{now}")
