"""A process -> the same process without a network beyond loopback.

Used by the tests' own process and, as an IPython startup file, by every notebook kernel under test.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any


class NetworkBlockedError(OSError):
    """A test reached for the network; code under test sees what it would see on a machine without one."""


def is_loopback(host: object) -> bool:
    """Whether a host is this machine: a loopback address, ``localhost``, or no host at all (bind to any)."""
    if host in (None, "", "localhost", b"localhost", "0.0.0.0", "::"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:
        return False


def block() -> None:
    """Let sockets and name look-ups reach loopback only (and sockets of the file system)."""
    real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex
    real_sendto, real_getaddrinfo = socket.socket.sendto, socket.getaddrinfo

    def check(address: Any) -> None:
        if isinstance(address, tuple) and not is_loopback(address[0]):
            raise NetworkBlockedError(f"tests reach no network, and this one asked for {address[0]}")

    def connect(self: socket.socket, address: Any) -> None:
        check(address)
        real_connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return real_connect_ex(self, address)

    def sendto(self: socket.socket, data: Any, *rest: Any) -> int:
        check(rest[-1])
        return real_sendto(self, data, *rest)

    def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
        if not is_loopback(host):
            raise NetworkBlockedError(f"tests reach no network, and this one asked for {host}")
        return real_getaddrinfo(host, *rest, **options)

    socket.socket.connect = connect  # type: ignore[method-assign]
    socket.socket.connect_ex = connect_ex  # type: ignore[method-assign]
    socket.socket.sendto = sendto  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = getaddrinfo
