"""Griffe's view of docstrings as Markdown: roles of Sphinx become code, and cited pages become links."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod):`~?([\w.]+)`")
_PAGE = re.compile(r"\bdocs/reference/([\w-]+)\.md")


class Docstrings(griffe.Extension):
    """What mkdocs.yml names among the extensions of mkdocstrings."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of one object, if it has one."""
        if obj.docstring is not None:
            text = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", obj.docstring.value)
            obj.docstring.value = _PAGE.sub(lambda page: f"[{page[1].replace('-', ' ')}](../{page[1]}.md)", text)
