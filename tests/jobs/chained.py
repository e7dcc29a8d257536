"""A second job, which reads what the job ``exactly`` writes."""

from __future__ import annotations

from anabranch import Job

job = Job("chained")

job.read("exact", key="place string", schema="name string, stream string, customer string, number int").where(
    "number >= 0"
).write("chain")
