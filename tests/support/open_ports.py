"""The ports on which processes of this machine listen, and what Spark's answer to whoever asks."""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_LISTENING = "0A"
_REQUEST, _ID = 3, 42
"""Spark's message type of a remote call, and any number for it."""


def listening(pids: Iterable[int]) -> list[tuple[str, int]]:
    """The addresses and ports on which these processes listen, over TCP."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                found.add((_address(address), int(port, 16)))
    return sorted(found)


def asked(port: int, seconds: float = 5.0) -> bytes:
    """What is answered to a remote call in Spark's protocol that nobody has authenticated; nothing: it was closed, or
    nothing came."""
    body = b"whoever"
    head = struct.pack(">QBqI", 21 + len(body), _REQUEST, _ID, len(body))
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(head + body)
            return connection.recv(4096)
        except OSError:
            return b""


def _sockets(pid: int) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = each.readlink()
        except OSError:
            continue  # closed meanwhile
        inode = re.fullmatch(r"socket:\[(\d+)\]", target.name)
        if inode is not None:
            found.append(inode[1])
    return found


def _address(text: str) -> str:
    """That of the kernel's table, whose words of four bytes are turned round."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
