"""httpx without its command line, which imports rich and pygments. Importing those takes longer than everything
else that a verb does.

httpx does without them if rich isn't installed; here it is made to look that way.
"""

from __future__ import annotations

import sys
from typing import Any

_COMMAND_LINE = "httpx._main"
_modules: dict[str, Any] = sys.modules

if "httpx" in _modules:
    import httpx
else:
    _modules[_COMMAND_LINE] = None
    try:
        import httpx
    finally:
        del _modules[_COMMAND_LINE]

__all__ = ["httpx"]
