"""The script that makes images, run on a machine in namespaces, and the user data that a machine of the image runs."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from det_agent.main import UNIT
from det_controlplane.core.provision.boot import Boot, user_data

from tests.support.cloudbox.box import until
from tests.support.cloudbox.machine import Image, Machine, power_on
from tests.support.cloudbox.network import network
from tests.support.terraform import terraform

PACKER = Path(__file__).resolve().parents[2] / "agent_ami" / "packer"
PROGRAMS = ("docker", "apt-get", "nvidia-ctk", "snap")
CHANGED = (
    "/etc/apt/apt.conf.d/99determined",
    "/etc/systemd/journald.conf.d/determined.conf",
    "/usr/local/bin/unpigz",
    "/etc/determined/image-built-at",
    "/etc/systemd/system/determined-scratch.service",
    "/etc/systemd/system/determined-block-metadata.service",
    "/etc/systemd/system/det-agent.service",
)

# A network behind a bridge, as for containers. Packets pass Docker's chain, and names are resolved in both ways.
INSIDE = "nsenter --net=/run/container"
CONTAINER = f"""
set -e
touch /run/container
unshare --net=/run/container true
ip link add host-end type veth peer name its-end
{INSIDE} sleep 60 & inside=$!
until [ "$(readlink /proc/$inside/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link set its-end netns $inside
kill $inside
ip addr add 10.99.0.1/24 dev host-end
ip link set host-end up
{INSIDE} sh -c 'ip addr add 10.99.0.2/24 dev its-end; ip link set its-end up; ip route add default via 10.99.0.1'
echo 1 > /proc/sys/net/ipv4/ip_forward
iptables -A FORWARD -j DOCKER-USER
{INSIDE} bash -c 'echo name > /dev/udp/169.254.169.254/53'
{INSIDE} timeout 0.3 bash -c ': < /dev/tcp/169.254.169.254/53' || true
"""


ASK = "timeout 0.3 bash -c ': < /dev/tcp/169.254.169.254/{port}'"


def packets(machine: Machine, target: str, chain: str = "DOCKER-USER") -> list[int]:
    """Return how many packets each rule of a chain with this target has seen."""
    rules = machine.shell(f"iptables -L {chain} -v -n -x").stdout.splitlines()
    return [int(line.split()[0]) for line in rules if line.split()[2:3] == [target]]


def check_host_network_is_blocked(machine: Machine) -> None:
    """Ask the metadata service as a program of the machine, then as one in the slice of such containers."""
    tree = machine.shell("findmnt --noheadings --first-only -t cgroup2 -o TARGET").stdout.strip()
    assert machine.shell("cat /run/determined-slice").stdout == "determined.slice\n"
    enter_slice = f"echo $$ > {tree}/determined.slice/cgroup.procs && "
    try:
        machine.shell(ASK.format(port=80))
        assert packets(machine, "REJECT", "OUTPUT") == [0]
        machine.shell(enter_slice + ASK.format(port=53))
        assert packets(machine, "REJECT", "OUTPUT") == [0], "DNS is allowed"
        machine.shell(enter_slice + ASK.format(port=80))
        assert packets(machine, "REJECT", "OUTPUT")[0] > 0
        assert machine.shell("/usr/local/sbin/determined-block-metadata").returncode == 0
        assert packets(machine, "REJECT", "OUTPUT") == [0], "the rule was created again, once"
    finally:
        machine.shell(f"rmdir {tree}/determined.slice")


@pytest.mark.usefixtures("machines_may_boot")
def test_machine_of_the_image_boots_without_installing(tmp_path: Path) -> None:
    script = "#!/bin/bash\nPULL_IMAGES='one two' bash " + str(PACKER / "provision.sh")
    off: list[Machine] = []
    with network() as net:
        machine = power_on(
            net,
            tmp_path,
            "image",
            "image",
            script,
            Image(programs=PROGRAMS),
            lambda _: None,
            off.append,
            {},
        )
        try:
            until(lambda: "determined-image: done" in machine.console, "the end of the script")
            calls = machine.shell("cat /var/log/called").stdout.splitlines()
            assert "docker pull -q one" in calls
            assert "docker pull -q two" in calls
            assert [c for c in calls if c.startswith("apt-get") and "chrony" in c]
            assert not [c for c in calls if c.startswith("apt-get") and "docker.io" in c]
            assert [c for c in calls if c.startswith("apt-get") and c.endswith(" isal")]
            assert "igzip" in machine.shell("cat /usr/local/bin/unpigz").stdout
            assert "snap refresh --hold" in calls
            for path in CHANGED:
                assert machine.shell(f"test -s {path}").returncode == 0, path
                assert path == CHANGED[0] or not Path(path).exists(), "this machine is unchanged"
            assert machine.shell(f"cat {CHANGED[-1]}").stdout == UNIT.read_text()
            assert machine.shell("/usr/local/sbin/determined-block-metadata").returncode == 0
            assert machine.shell(CONTAINER).returncode == 0
            returned_packets, dropped_packets = packets(machine, "RETURN"), packets(machine, "DROP")
            assert [count > 0 for count in returned_packets] == [True, True], (
                "DNS by UDP, and by TCP"
            )
            assert dropped_packets == [0]
            machine.shell(f"{INSIDE} timeout 0.3 bash -c ': < /dev/tcp/169.254.169.254/80'")
            assert packets(machine, "DROP")[0] > 0
            assert packets(machine, "RETURN") == returned_packets
            check_host_network_is_blocked(machine)

            boot = user_data(Boot("ours", "http://127.0.0.1:9", "default", "aws"))
            (tmp_path / "boot").write_text(boot)
            path = f"{tmp_path}/scratch/bin:$PATH"
            machine.shell(f"PATH={path} bash {tmp_path}/boot < /dev/null > /dev/null 2>&1")
            log = "/var/log/determined-boot.log"
            until(lambda: "determined-boot: done" in machine.shell(f"cat {log}").stdout, "a boot")
            assert "installing" not in machine.shell(f"cat {log}").stdout
        finally:
            machine.close()


@pytest.mark.parametrize("template", sorted(PACKER.glob("*.hcl")), ids=lambda path: path.name)
def test_templates_are_valid_and_run_the_script(template: Path) -> None:
    text = template.read_text()
    assert text.count("{") == text.count("}")
    assert '"${path.root}/provision.sh"' in text
    variables = {line.split('"')[1] for line in text.splitlines() if line.startswith("variable ")}
    used = {word.split("}")[0].split(",")[0].split(")")[0] for word in text.split("var.")[1:]}
    assert {name.split()[0].strip('"/').split("/")[0] for name in used} <= variables
    if shutil.which(
        "terraform"
    ):  # it reads the same language; these tests have no parser for Packer's files
        formatted = subprocess.run(
            ["terraform", "fmt", "-check", "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )
        assert formatted.returncode == 0, formatted.stderr


def source_arguments(template: str, folder: Path, **variables: str) -> dict[str, Any]:
    """Return the arguments of a template's source, as Terraform evaluates them: Packer has the same expressions."""
    text = (PACKER / template).read_text()
    declarations = re.findall(r"^variable .*?^}$", text, re.M | re.S)
    body = re.findall(r'^source "[^"]+" "agent" {$(.*?)^}$', text, re.M | re.S)[0]
    pairs = re.findall(r"^  (\w+) += (.+)$", body, re.M)
    # Only Packer has data sources of its plugins.
    lines = [f"  {name} = {value}" for name, value in pairs if not value.startswith("data.")]
    source = "\n".join(("locals {", "agent = {", *lines, "}", "}"))
    (folder / "main.tf").write_text("\n".join((*declarations, source)))
    values = {"agent_package": "det.whl", **variables}
    words = [word for name, value in values.items() for word in ("-var", f"{name}={value}")]
    answer = subprocess.run(
        [terraform(), "console", *words],
        cwd=folder,
        input="jsonencode(local.agent)",
        text=True,
        capture_output=True,
        check=True,
    )
    arguments: dict[str, Any] = json.loads(json.loads(answer.stdout))
    return {name: value for name, value in arguments.items() if value not in (None, "")}


def test_aws_template_accepts_a_subnet(tmp_path: Path) -> None:
    """Subnets outside the default VPC give no public addresses, over which Packer connects."""
    usual = source_arguments("aws.pkr.hcl", tmp_path)
    assert not {"subnet_id", "associate_public_ip_address"} & usual.keys()
    arguments = source_arguments("aws.pkr.hcl", tmp_path, subnet_id="subnet-1")
    assert (arguments["subnet_id"], arguments["associate_public_ip_address"]) == ("subnet-1", True)
    private = source_arguments("aws.pkr.hcl", tmp_path, subnet_id="subnet-1", public_ip="false")
    assert private["associate_public_ip_address"] is False


def test_google_template_accepts_a_subnet(tmp_path: Path) -> None:
    """The plugin takes the network "default" only where neither a network nor a subnet is named."""
    usual = source_arguments("gcp.pkr.hcl", tmp_path, project="acme")
    assert not {"network", "subnetwork"} & usual.keys()
    assert (usual["omit_external_ip"], usual["use_internal_ip"], usual["use_iap"]) == (False,) * 3
    arguments = source_arguments("gcp.pkr.hcl", tmp_path, project="acme", subnetwork="det-team")
    assert (arguments["subnetwork"], "network" in arguments) == ("det-team", False)
    assert arguments["tags"] == ["determined-image"], "for a firewall rule that opens SSH"


def test_machine_without_public_address_is_reached_through_iap(tmp_path: Path) -> None:
    """The plugin refuses a machine without an external address unless it may use the internal one."""
    private = source_arguments(
        "gcp.pkr.hcl", tmp_path, project="acme", public_ip="false", iap="true"
    )
    assert (private["omit_external_ip"], private["use_internal_ip"]) == (True, True)
    assert private["use_iap"] is True
