"""A job whose input and output have schemas in a registry."""

from anabranch import Job

job = Job("registered")

job.read("in").where("number % 2 = 0").write("out")
