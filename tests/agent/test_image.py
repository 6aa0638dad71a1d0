"""The script that makes images, run on a machine in namespaces, and the user data that a machine of the image runs."""

import shutil
import subprocess
from pathlib import Path

import pytest
from det_agent.main import UNIT
from det_controlplane.core.provision.boot import Boot, user_data

from tests.support import skips
from tests.support.cloudbox.box import can_make_machines, until
from tests.support.cloudbox.machine import Image, Machine, power_on
from tests.support.cloudbox.network import network

PACKER = Path(__file__).resolve().parents[2] / "agent_ami" / "packer"
CHANGED = (
    "/etc/apt/apt.conf.d/99determined",
    "/etc/systemd/journald.conf.d/determined.conf",
    "/etc/systemd/system/determined-scratch.service",
    "/etc/systemd/system/determined-block-metadata.service",
    "/etc/systemd/system/det-agent.service",
)


@pytest.mark.skipif(
    not can_make_machines(), reason=skips.because("namespaces are for root only", skips.AS_ROOT)
)
def test_a_machine_of_the_image_installs_nothing_when_it_boots(tmp_path: Path) -> None:
    script = "#!/bin/bash\nPULL_IMAGES='one two' bash " + str(PACKER / "provision.sh")
    off: list[Machine] = []
    with network() as net:
        machine = power_on(
            net, tmp_path, "image", "image", script, Image(), lambda _: None, off.append
        )
        try:
            until(lambda: "determined-image: done" in machine.console, "the end of the script")
            called = machine.shell("cat /var/log/called").stdout.splitlines()
            assert "docker pull -q one" in called
            assert "docker pull -q two" in called
            assert [c for c in called if c.startswith("apt-get install") and "chrony" in c]
            for path in CHANGED:
                assert machine.shell(f"test -s {path}").returncode == 0, path
                assert path == CHANGED[0] or not Path(path).exists(), "this machine is unchanged"
            assert machine.shell(f"cat {CHANGED[-1]}").stdout == UNIT.read_text()
            assert machine.shell("/usr/local/sbin/determined-block-metadata").returncode == 0
            blocked = machine.shell("iptables -S DOCKER-USER").stdout
            assert "-A DOCKER-USER -d 169.254.169.254/32 -j DROP" in blocked

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
def test_templates_are_well_formed_and_run_the_script(template: Path) -> None:
    text = template.read_text()
    assert text.count("{") == text.count("}")
    assert '"${path.root}/provision.sh"' in text
    declared = {line.split('"')[1] for line in text.splitlines() if line.startswith("variable ")}
    used = {word.split("}")[0].split(",")[0].split(")")[0] for word in text.split("var.")[1:]}
    assert {name.split()[0].strip('"/').split("/")[0] for name in used} <= declared
    if shutil.which("terraform"):  # it reads the same language, and nothing here reads Packer's
        formatted = subprocess.run(
            ["terraform", "fmt", "-check", "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )
        assert formatted.returncode == 0, formatted.stderr
