"""An authority, and what it signs: made anew for each test, by hands that aren't ours."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]


class Authority:
    """Signs certificates, and keeps all files in a folder. ``pem``: its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(self._name, self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        use = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        own = made.add_extension(use, True).sign(self._key, hashes.SHA256())
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(own.public_bytes(Encoding.PEM))

    def signed(self, name: str, days: int = 1, host: str = "localhost") -> tuple[Path, Path]:
        """A certificate for a host, and for 127.0.0.1 if that is localhost, and its key. With negative days it has been
        over for so long."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == "localhost":
            hosts.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        made = _builder(_named(name), self._name, key, days)
        made = made.add_extension(x509.SubjectAlternativeName(hosts), False)
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
        signed = made.sign(self._key, hashes.SHA256())
        certificate, private = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    end = datetime.now(UTC) + timedelta(days=days)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(end - timedelta(days=2))
    made = made.not_valid_after(end)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
