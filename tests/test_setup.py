"""The files that build the environment agree with each other and hold nothing of one machine."""

from __future__ import annotations

import re
import socket
import tomllib
from pathlib import Path

import pytest
from offline import NetworkBlockedError, is_loopback
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


MAKEFILE = read("Makefile")
PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKED = re.search(r"^LOCKED = (.+)$", MAKEFILE, re.MULTILINE)[1].split()
DECLARED = [*PROJECT["dependencies"], *(r for extra in LOCKED for r in EXTRAS[extra])]
LOCK = [
    Requirement(line) for line in read("requirements.lock").splitlines() if line and not line.startswith("#")
]
SYSTEMS = [
    {"sys_platform": system, "os_name": "nt" if system == "win32" else "posix", "platform_machine": machine}
    | {"platform_system": name, "python_version": python, "python_full_version": f"{python}.5"}
    for python in ("3.11", "3.12", "3.13")
    for system, name, machine in (
        ("linux", "Linux", "x86_64"),
        ("darwin", "Darwin", "arm64"),
        ("win32", "Windows", "AMD64"),
    )
]


@pytest.mark.parametrize("declared", DECLARED)
def test_the_lock_pins_every_declared_package_on_every_system(declared):
    wanted = Requirement(declared)
    pins = [r for r in LOCK if canonicalize_name(r.name) == canonicalize_name(wanted.name)]
    for system in SYSTEMS:
        here = [r for r in pins if r.marker is None or r.marker.evaluate(system)]
        assert len(here) == 1, f"{declared} on {system}: run make lock"
        (pin,) = here[0].specifier
        assert pin.operator == "=="
        assert Version(pin.version) in wanted.specifier, f"{here[0]} is outside {declared}: run make lock"


def test_the_lock_leaves_out_one_extra():
    assert set(EXTRAS) - set(LOCKED) == {"ragas"}
    assert not any(pin.name == "ragas" for pin in LOCK)


def test_the_lock_pins_exact_versions_only():
    assert all([s.operator for s in pin.specifier] == ["=="] for pin in LOCK)
    assert not any(pin.extras or pin.url for pin in LOCK), "pip takes neither in a constraints file"


@pytest.mark.parametrize("name", ["requirements.lock", "environment.yml", "pyproject.toml", "Makefile"])
def test_no_index_and_no_place_of_a_machine(name):
    text = read(name)
    assert not re.search(
        r"https?://|file:|--index|--extra-index|-i |--trusted-host|/(?:opt|home|root|tmp)/", text
    )


def test_conda_builds_what_make_builds():
    environment = read("environment.yml")
    extras = re.search(r"^\$\(VENV\)/\.full: WHAT = (\S+)$", MAKEFILE, re.MULTILINE)[1]
    assert re.findall(r"^      - (.+)$", environment, re.MULTILINE) == [
        "-c requirements.lock",
        f"-e {extras}",
    ]
    assert f"python{PROJECT['requires-python']}" in environment
    for extra in re.search(r"\[(.+)\]", extras)[1].split(","):
        assert extra in PROJECT["optional-dependencies"]


def test_the_makefile_takes_the_pythons_of_the_project():
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in MAKEFILE
    workflow = read(".github/workflows/ci.yml")
    assert workflow.count('python: ["3.11", "3.12", "3.13"]') == 2, "unix and windows"


def test_the_workflow_serves_the_minor_release_of_the_locked_client():
    client = next(r for r in LOCK if r.name == "qdrant-client")
    (pin,) = client.specifier
    server = re.search(r"image: qdrant/qdrant:v(\d+\.\d+)\.", read(".github/workflows/ci.yml"))[1]
    assert pin.version.startswith(server + ".")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "", None, b"127.0.0.1", "127.8.9.1"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["192.0.2.1", "example.org", "10.0.0.1", "2001:db8::1", "localhost.example.org"]
)
def test_not_loopback(host):
    assert not is_loopback(host)


def test_no_socket_leaves_this_machine():
    with pytest.raises(NetworkBlockedError, match=r"asked for example\.org"):
        socket.create_connection(("example.org", 80), timeout=1)
    with socket.socket() as tcp, pytest.raises(NetworkBlockedError):
        tcp.connect_ex(("192.0.2.1", 80))
    with socket.socket(type=socket.SOCK_DGRAM) as udp, pytest.raises(NetworkBlockedError):
        udp.sendto(b"x", ("192.0.2.1", 53))


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=1).close()
