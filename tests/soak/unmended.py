"""The command line with sources that are registered as Spark does it by itself: to see that the mend is what mends."""

from __future__ import annotations

from anabranch.cli.main import main
from anabranch.spark.internals import source_environment


def unmend() -> None:
    """Sources that are registered from now on, in this process, have the environment that Spark gives them."""
    assert source_environment.of_session.__module__ == source_environment.__name__, "it has been taken out before"
    source_environment.of_session = lambda _spark: {}  # type: ignore[assignment]


if __name__ == "__main__":
    unmend()
    main()
