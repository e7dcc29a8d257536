"""How the JVMs of tests are started."""

COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""They live for seconds or minutes: the quick compiler alone halves what they need of the processor, and a tenth less
is needed where Spark's classes aren't verified."""

QUICK = {"SPARK_SUBMIT_OPTS": f"{COMPILER} -XX:+UseSerialGC -Xms512m -Xmn256m"}
