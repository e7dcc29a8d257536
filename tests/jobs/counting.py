"""A running count by key: state that never goes by itself."""

from anabranch import Job

job = Job("counting")

job.read("asked", key="who string", schema="number int").agg(n="count(*)", name="counted").write("counts")
