"""Reads much and writes nothing: what comes over the network is what it reads."""

from anabranch import Job

job = Job("few")

job.read("many", key="k string", schema="n int").where("n < 0").write("none")
