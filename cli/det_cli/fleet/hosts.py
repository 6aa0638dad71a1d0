"""The hosts file: one machine per line, with options as `name=value` (docs/guides/fleet.md)."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path

from det_cli.errors import CommandError

_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")
_SLOTS = re.compile(r"auto|none|cpu|cuda|gpu|rocm|artificial:[1-9][0-9]*")  # as of det-agent
# Inventories of Ansible use these names.
_OF_ANSIBLE = {
    "ansible_host": "address",
    "ansible_user": "user",
    "ansible_port": "port",
    "ansible_ssh_private_key_file": "key",
}
_CHOICES = {"runtime": ("auto", "docker", "process"), "service": ("systemd", "process")}


@dataclass(frozen=True)
class Host:
    """A machine of the fleet. Empty values are left to SSH's own configuration or to the agent."""

    name: str  # as in the file
    address: str = ""  # host name or address for SSH, if it is not the name
    user: str = ""
    port: str = ""
    key: str = ""
    pool: str = ""
    agent: str = ""  # the agent's id; the machine's host name if empty
    slots: str = ""
    gpus: str = ""
    exclude_gpus: str = ""
    runtime: str = ""
    python: str = ""
    service: str = "systemd"

    @property
    def target(self) -> str:
        return self.address or self.name


_OPTIONS = tuple(field.name for field in fields(Host) if field.name != "name")


def read_hosts(path: Path, defaults: Host) -> list[Host]:
    """Return the machines of a file. Options of the file take precedence over the defaults."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as e:
        raise CommandError(f"{path} is not a text file", "write one host per line") from e
    hosts = list(_parse(text, str(path), defaults))
    if not hosts:
        raise CommandError(
            f"{path} names no host", "write one host per line, such as `gpu-1 user=ubuntu`"
        )
    return hosts


def _parse(text: str, path: str, defaults: Host) -> Iterator[Host]:
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as e:
            raise CommandError(f"{where}: {e}", "close the quotation mark") from e
        if not words:
            continue
        name, *options = words
        if name.startswith("[") and name.endswith("]") and not options:
            _check_group(where, name)
            continue
        if name in lines:
            raise CommandError(
                f"{where}: {name} is also on line {lines[name]}",
                "name each host once; two hosts behind one address need different names and address=…",
            )
        lines[name] = number
        yield _host(where, name, options, defaults)


def _check_group(where: str, header: str) -> None:
    """Raise CommandError if the lines below a header of an Ansible inventory are no hosts."""
    if header.endswith((":vars]", ":children]")):
        raise CommandError(
            f"{where}: {header} is not supported",
            "write each host once, with its options on its line",
        )


def _host(where: str, name: str, options: list[str], defaults: Host) -> Host:
    if not _ADDRESS.fullmatch(name):
        raise CommandError(
            f"{where}: {name!r} is not a host name or an address",
            "start each line with the host, and write the user as user=…",
        )
    return checked(replace(defaults, name=name, **_values(where, options)), where)


def _values(where: str, options: list[str]) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for option in options:
        given, equals, value = option.partition("=")
        name = _OF_ANSIBLE.get(given, given)
        if not equals or name not in _OPTIONS:
            near = get_close_matches(name, _OPTIONS, n=1)
            known = f"did you mean {near[0]}=?" if near else f"known are {', '.join(_OPTIONS)}"
            raise CommandError(f"{where}: unknown option {option!r}", known)
        if name in values:
            raise CommandError(
                f"{where}: {name}= is there twice", "write each option of a host once"
            )
        if not value:
            raise CommandError(
                f"{where}: {given}= has no value", f"write {given}=VALUE, or remove {given}="
            )
        values[name] = value
    return values


def checked(host: Host, where: str) -> Host:
    """Return the host, or raise CommandError if SSH or the agent cannot use a value."""
    if host.address and not _ADDRESS.fullmatch(host.address):
        raise CommandError(f"{where}: address={host.address} is not a host name or an address")
    if host.user and not _USER.fullmatch(host.user):
        raise CommandError(f"{where}: user={host.user} is not the name of a user")
    if host.port and not (host.port.isdecimal() and 0 < int(host.port) < 65536):
        raise CommandError(
            f"{where}: port={host.port} is not a port", "use a number from 1 to 65535"
        )
    for name, choices in _CHOICES.items():
        value = getattr(host, name)
        if value and value not in choices:
            raise CommandError(f"{where}: {name}={value} is unknown", f"use {' or '.join(choices)}")
    if host.slots and not _SLOTS.fullmatch(host.slots):
        raise CommandError(
            f"{where}: slots={host.slots} is unknown",
            "use auto, none, cpu, cuda, rocm or artificial:N, such as artificial:4",
        )
    if host.key and not Path(host.key).expanduser().is_file():
        raise CommandError(
            f"{where}: key={host.key} does not exist", "name the file of the private key"
        )
    return host
