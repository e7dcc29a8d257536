"""The image's entry point: runs the given command or, if the command is ``executor``, a Spark executor on Kubernetes.

Spark starts the containers of executors with this command, and passes everything else in environment variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
JAVA_OPTION = "SPARK_JAVA_OPT_"


def command(words: Sequence[str], environment: Mapping[str, str], spark: Path) -> list[str]:
    """The program to run, with its arguments. ``words`` is the given command; ``spark`` is PySpark's folder."""
    if list(words) != ["executor"]:
        return [*words]
    numbers = sorted(int(name.removeprefix(JAVA_OPTION)) for name in environment if name.startswith(JAVA_OPTION))
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    paths = [environment.get("SPARK_CONF_DIR"), environment.get("HADOOP_CONF_DIR"), f"{spark}/jars/*"]
    paths += [environment.get("SPARK_EXTRA_CLASSPATH")]
    return [
        "java",
        *(environment[f"{JAVA_OPTION}{number}"] for number in numbers),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", ":".join(path for path in paths if path)),
        MAIN,
        *(word for option, name in OPTIONS.items() for word in (option, environment[name])),
    ]


if __name__ == "__main__":
    import pyspark

    given = command(sys.argv[1:], os.environ, Path(pyspark.__path__[0]))
    os.execvp(given[0], given)
