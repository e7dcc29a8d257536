"""Counts by windows of processing time: of each second that a record came in."""

from anabranch import Job, tumbling

job = Job("ticking")

read = job.read("in", key="k string", schema="n int")
read.window(tumbling("1 second"), time="processing").agg(c="count(*)", name="counted").write("out")
