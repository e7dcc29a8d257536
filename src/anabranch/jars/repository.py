"""Chooses the Maven repository from which jars are fetched."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as xml
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import UsageError

__all__ = ["VARIABLE", "Repository", "chosen"]

VARIABLE = "ANABRANCH_MAVEN_REPOSITORY"
_CENTRAL = "https://repo.maven.apache.org/maven2"
"""Maven's own default repository."""
_LOGIN = re.compile(r"(?<=://)[^/]+(?=@)")
_MIRRORED = {"*", "central", "external:*"}


@dataclass(frozen=True)
class Repository:
    """A Maven repository, and where its URL was configured."""

    url: str
    origin: str

    def __str__(self) -> str:
        return f"{self.shown} ({self.origin})"

    @property
    def shown(self) -> str:
        """The URL without its login, for messages."""
        return _LOGIN.sub("***", self.url)


def chosen(url: str | None = None, environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Repository:
    """The repository to use. This is the first of the following that is given: ``url``, the URL in the environment
    variable ``ANABRANCH_MAVEN_REPOSITORY``, or the mirror of Maven Central in ``~/.m2/settings.xml``. If none is given,
    Maven Central is used.

    Raises:
        UsageError: the URL isn't an HTTP URL. Or ``settings.xml`` is needed and exists, but can't be read.
    """
    if url is not None:
        named = Repository(url, "--repository")
    elif environment.get(VARIABLE):
        named = Repository(environment[VARIABLE], VARIABLE)
    elif (settings := _settings_file(home)) is not None and (mirror := _mirror(settings)) is not None:
        named = Repository(mirror, f"the mirror in {settings}")
    else:
        named = Repository(_CENTRAL, "Maven Central")
    if not named.url.startswith(("https://", "http://")):
        raise UsageError(f"{named} isn't the URL of a Maven repository", "name one that begins with https://")
    return Repository(named.url.rstrip("/"), named.origin)


def _settings_file(home: Path | None) -> Path | None:
    try:
        return (home or Path.home()) / ".m2" / "settings.xml"
    except RuntimeError:  # the home folder isn't known, so Maven would have no settings either
        return None


def _mirror(settings: Path) -> str | None:
    try:
        root = xml.parse(settings).getroot()
    except FileNotFoundError:
        return None
    except (OSError, xml.ParseError) as error:
        raise UsageError(f"{settings} can't be read: {error}", f"fix it, or name a repository in {VARIABLE}") from error
    for mirror in root.iter():
        if _plain(mirror) == "mirror":
            parts = {_plain(part): (part.text or "").strip() for part in mirror}
            patterns = {pattern.strip() for pattern in parts.get("mirrorOf", "").split(",")}
            if patterns & _MIRRORED and "!central" not in patterns and parts.get("blocked") != "true":
                return parts.get("url") or None
    return None


def _plain(element: xml.Element) -> str:
    """An element's name without its namespace, which not all settings files declare."""
    return element.tag.rpartition("}")[2]
