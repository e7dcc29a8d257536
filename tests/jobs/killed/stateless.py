"""Two thirds of the records, as they are."""

from __future__ import annotations

from anabranch import Job

job = Job("stateless")

numbers = job.read("numbers", key="k string", schema="n int, at timestamp")
numbers.where("n % 3 <> 0").select("k", "n").write("kept")
