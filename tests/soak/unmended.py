"""The command line with sources that are registered as Spark does it by itself: to see that the mend is what mends."""

from __future__ import annotations

from anabranch.cli.main import main
from anabranch.spark.internals import source_environment

if __name__ == "__main__":
    vars(source_environment)["of_session"] = lambda _spark: {}
    main()
