"""TLS between a coordinator and its clients: which certificates the two ends present and accept, and why a connection
failed.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from anabranch import logs
from anabranch.errors import ConfigError
from anabranch.throttle import LastTold

__all__ = ["alert", "of_client", "of_server", "refusal"]

_ABOUT_CERTIFICATES = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "DECRYPT_ERROR")
"""Parts of the names of alerts with which one end refuses the other's certificate."""


def of_server(certificate: Path, key: Path | None = None, client_ca: Path | None = None) -> ssl.SSLContext:
    """The TLS context of a coordinator. Each handshake uses the current content of the files.

    Args:
        certificate: the file with the certificate that the coordinator presents.
        key: the file with the private key; None if the key is in the certificate's file.
        client_ca: the file with the certificate of the authority that must have signed clients' certificates; None if
            clients need no certificate.

    Raises:
        ConfigError: a file can't be read, or has the wrong content. The message names the file.
    """

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        _show(context, certificate, key, "certificate", "key")
        if client_ca is not None:
            _trust(context, client_ca, "client_ca")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    return _Following(make, certificate, key, client_ca)


def of_client(ca: Path | None = None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """The TLS context of a client. Each handshake uses the current content of the files.

    Args:
        ca: the file with the certificate of the authority that must have signed the coordinator's certificate; None for
            any authority that this machine trusts.
        certificate: the file with the certificate that the client presents; None if it presents none.
        key: the file with the private key; None if the key is in the certificate's file, or there is no certificate.

    Raises:
        ConfigError: as for :func:`of_server`.
    """

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        if ca is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            _trust(context, ca, "ca")
        if certificate is not None:
            _show(context, certificate, key, "client_certificate", "client_key")
        return context

    return _Following(make, ca, certificate, key)


class _Following(ssl.SSLContext):
    """Leaves each TLS handshake to a context from ``make``. If one of the files has changed, a new context is made
    before the handshake. While the files can't be used, for example because only half of them have been replaced, the
    last context stays in use. Settings of this object itself have no effect.
    """

    def __new__(cls, make: Callable[[], ssl.SSLContext], *files: Path | None) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], *files: Path | None) -> None:
        self._make = make
        self._files = [path for path in files if path is not None]
        self._lock = threading.Lock()
        self._seen = _stamps(self._files)
        self._made = make()
        self._told = LastTold()

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self._current().wrap_socket(*args, **kwargs)

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:  # httpx calls this before each handshake
        self._current().set_alpn_protocols(alpn_protocols)

    def _current(self) -> ssl.SSLContext:
        with self._lock:
            found = _stamps(self._files)
            try:
                if found != self._seen:
                    self._made = self._make()
                    self._seen = found
                self._told.over()
            except ConfigError as error:
                if self._told.is_new(str(error)):
                    logs.get_logger().warning(
                        "changed certificates can't be used; the former ones stay in use", error=str(error)
                    )
            return self._made


def _stamps(files: Iterable[Path]) -> list[tuple[int, int, int] | None]:
    """For each file, a value that changes when the file changes; None if the file can't be examined."""

    def stamp(path: Path) -> tuple[int, int, int] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    return [stamp(path) for path in files]


def refusal(error: BaseException) -> str | None:
    """Why one end refused the other's certificate; None if something else caused the error."""
    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
    name = alert(error) or ""
    return f"it says {name}" if any(word in name for word in _ABOUT_CERTIFICATES) else None


def alert(error: BaseException) -> str | None:
    """The alert with which the other end ended the connection, such as ``TLSV1_ALERT_PROTOCOL_VERSION``; None if there
    was none.
    """
    for cause in causes(error):
        if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
            return cause.reason
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and the errors that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _show(context: ssl.SSLContext, certificate: Path, key: Path | None, *settings: str) -> None:
    for setting, path in zip(settings, (certificate, key), strict=True):
        if path is not None:
            _check(path, setting)
    try:
        # Without a password argument, OpenSSL would ask for the password at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        named = certificate if key is None else f"{certificate} with {key}"
        why = getattr(error, "reason", None) or error
        raise ConfigError(
            f"[coordinator] {settings[0]}: {named} isn't a certificate with its key: {why}",
            "name PEM files that belong together, with a key that has no password",
        ) from error


def _trust(context: ssl.SSLContext, ca: Path, setting: str) -> None:
    _check(ca, setting)
    try:
        context.load_verify_locations(ca)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"[coordinator] {setting}: {ca} holds no certificates: {getattr(error, 'reason', None) or error}",
            "name a PEM file of the authority's",
        ) from error


def _check(path: Path, setting: str) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"[coordinator] {setting}: {path} can't be read: {error.strerror}",
            "name a PEM file that this user can read",
        ) from error
