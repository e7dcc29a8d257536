"""Fetches jars from a Maven repository into the cache, without Maven, and verifies their checksums."""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from anabranch import own_files
from anabranch.errors import AnabranchError, DamagedError, UnreachableError
from anabranch.httpx_alone import httpx
from anabranch.jars.pinned import Jar, JarSet
from anabranch.jars.repository import VARIABLE, Repository

__all__ = ["fetch"]

_AT_ONCE = 6
_ATTEMPTS = 3
_TIMEOUT = 60.0
_CURE = f"name another Maven repository: --repository URL, or {VARIABLE}"


def fetch(wanted: JarSet, repository: Repository, say: Callable[[str], None]) -> Path:
    """Fetch the jars of a set into the cache, unless all of them are there already, and return the set's folder.

    A new folder appears in the cache only when it is complete. A folder that already exists isn't replaced, because
    another process may be using it: only jars that it lacks are added, and damaged jars are replaced.

    Args:
        say: called with a line of text before anything is fetched.

    Raises:
        AnabranchError: a jar can't be fetched, or has the wrong checksum, or the folder can't be made. If a jar was the
            cause, no jar was added to the cache.
    """
    try:
        if not wanted.is_there:
            say(f"fetching the {wanted.name} jars ({len(wanted.jars)}) from {repository} ...")
            _fetch(wanted, repository)
    except OSError as error:
        raise AnabranchError(
            f"{wanted.folder} can't be made: {error.strerror or error}",
            "let the cache be in a folder that can be written, and has room: XDG_CACHE_HOME",
        ) from error
    return wanted.folder


def _fetch(wanted: JarSet, repository: Repository) -> None:
    wanted.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=wanted.folder.parent) as outer:
        new = Path(outer) / wanted.folder_name
        new.mkdir()
        client = httpx.Client(timeout=_TIMEOUT, follow_redirects=True, verify=_trusted())
        with client, ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda jar: _fetch_one(client, repository, jar, new), wanted.jars))
        _put(new, wanted)


def _put(new: Path, wanted: JarSet) -> None:
    """Move ``new``, a complete folder, into the cache. If the cache already has a folder for the set, move only those
    jars that are missing from this folder or damaged in it.
    """
    own_files.sync(new)
    try:
        new.rename(wanted.folder)
    except OSError:
        if not wanted.folder.is_dir():
            raise
        for jar in wanted.jars:
            if not jar.is_in(wanted.folder):
                (new / jar.file).replace(wanted.folder / jar.file)
        own_files.sync(wanted.folder)
    own_files.sync(wanted.folder.parent)


def _fetch_one(client: httpx.Client, repository: Repository, jar: Jar, folder: Path) -> None:
    url = f"{repository.url}/{jar.path}"
    for attempt in range(_ATTEMPTS):
        try:
            response = client.get(url)
            break
        except httpx.TransportError as error:
            if attempt == _ATTEMPTS - 1:
                reason = str(error) or type(error).__name__
                raise UnreachableError(f"{jar.file} can't be fetched from {repository}: {reason}", _CURE) from error
    if response.status_code != httpx.codes.OK:
        raise AnabranchError(f"{repository} has no {jar.path}: HTTP status {response.status_code}", _CURE)
    if hashlib.sha256(response.content).hexdigest() != jar.sha256:
        raise DamagedError(
            f"{repository.shown}/{jar.path} isn't the jar that anabranch was tested with: it has another SHA-256; "
            "nothing was kept",
            _CURE,
        )
    (folder / jar.file).write_bytes(response.content)
    own_files.sync(folder / jar.file)  # otherwise, a power cut could leave an empty file in the cache


def _trusted() -> ssl.SSLContext:
    """A TLS context that trusts the certificate authorities that this machine trusts. If the machine has no list of
    authorities, the context trusts the authorities of certifi. By default, httpx trusts only the authorities of
    certifi.
    """
    context = ssl.create_default_context()
    if not context.get_ca_certs() and not os.environ.get("SSL_CERT_FILE"):
        import certifi

        context.load_verify_locations(certifi.where())
    return context
