"""How the JVMs of tests are started."""

COMPILER = "-XX:TieredStopAtLevel=1"
"""They live for seconds or minutes: the quick compiler alone halves what they need of the processor."""

QUICK = {"SPARK_SUBMIT_OPTS": f"{COMPILER} -XX:+UseParallelGC -Xms256m"}
