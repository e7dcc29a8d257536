"""In which storage a folder can be claimed."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.checkpoint import claims
from anabranch.errors import ConfigError


@pytest.mark.parametrize("scheme", ["s3", "s3n", "http"])
def test_a_folder_cannot_be_claimed_where_files_may_not_be_created_exclusively(scheme: str) -> None:
    spark: Any = None
    with pytest.raises(ConfigError, match=rf"root is on '{scheme}'.*\n.*use one of .*s3a"):
        claims.take(spark, f"{scheme}://lanes/root/delays/0-abc/1", lambda: False)
