"""Finds sessions in a web shop: pages that a visitor opens with at most 30 minutes between one and the next."""

from anabranch import Job, session

job = Job("click-sessions")

clicks = job.read(
    "clicks",
    key="visitor string",
    schema="page string, at timestamp",
    event_time="at",
    watermark="5 minutes",
)

(
    clicks.window(session("30 minutes"))
    .agg(
        pages="count(*)",
        entry="min_by(page, at)",
        exit="max_by(page, at)",
        bought="max(page = '/thanks')",
    )
    .write("sessions")
)
