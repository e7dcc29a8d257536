"""How the JVMs of tests are started."""

QUICK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -Xms256m"}
"""They live for seconds or minutes: the quick compiler alone halves what they need of the processor."""
