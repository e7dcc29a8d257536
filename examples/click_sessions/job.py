"""Sessions of a web shop: the pages that a visitor opens with no more than 30 minutes between two of them."""

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
