"""The script that makes a rented machine an agent, as bash reads it and as a machine runs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.core.provision.boot import VENV, Boot, last_words, user_data

from tests.support import skips
from tests.support.fake_controlplane import JOIN_TOKEN, FakeControlPlane

PLAIN = Boot("ours", "https://cluster.example", "gpus", "aws")
HOSTILE = 'it\'s $HOME `id` "quoted" \\ %s {braces}\nand a second line'
BOOTS = {
    "plain": PLAIN,
    "hostile names": Boot(HOSTILE, f"https://{HOSTILE}", HOSTILE, "gcp", package=HOSTILE),
    "startup script": Boot(
        "ours", "https://c", "gpus", "aws", startup_script="if true; then\n  echo 'it'\nfi\n# end"
    ),
    "empty startup script": Boot("ours", "https://c", "gpus", "aws", startup_script="\n\n"),
    "machine with GPUs": Boot("ours", "https://c", "gpus", "aws", has_gpus=True),
    "options of the agent": Boot(
        "ours", "https://c", "gpus", "aws", agent_config={"hooks": {"x": HOSTILE}, "slots": "none"}
    ),
}
# The machine's own folders lie above this machine's; the agent's installation is bound where images have it.
MACHINE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {scratch}
for folder in etc var opt; do
    mkdir -p {scratch}/$folder/upper {scratch}/$folder/work
    over=upperdir={scratch}/$folder/upper,workdir={scratch}/$folder/work
    mount -t overlay overlay -o lowerdir=/$folder,$over /$folder
done
mount -t tmpfs tmpfs /run
mkdir -p {installed} {scratch}/bin
printf '#!/bin/sh\\nexec {python} -m det_agent.main "$@"\\n' > {installed}/det-agent
printf '#!/bin/sh\\necho "$0 $*" >> {scratch}/called\\n' > {installed}/pip
for program in docker iptables apt-get systemctl; do
    printf '#!/bin/sh\\necho "$0 $*" >> {scratch}/called\\n' > {scratch}/bin/$program
done
if [ {installed} != {venv}/bin ]; then
    cat > {scratch}/bin/python3 <<'END'
#!/bin/sh
case "$*" in
    *ensurepip*) exit 1 ;;
    "-m venv "*) mkdir -p {venv}/bin && cp {installed}/* {venv}/bin ;;
esac
END
fi
chmod +x {installed}/* {scratch}/bin/*
PATH={scratch}/bin:$PATH timeout 60 bash {script} < /dev/null && echo booted
# What the script prints is written to its log by another process, which may be behind.
timeout 30 sh -c 'until grep -q "determined-boot: done" /var/log/determined-boot.log; do sleep 0.05; done'
cat /var/log/determined-boot.log {scratch}/called
echo complete
read until_the_test_ends
"""


@pytest.mark.parametrize("boot", BOOTS.values(), ids=BOOTS)
def test_bash_can_read_the_script(boot: Boot) -> None:
    read = subprocess.run(["bash", "-n"], input=user_data(boot), text=True, capture_output=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_what_operators_write_is_no_command(tmp_path: Path) -> None:
    script = user_data(BOOTS["hostile names"])
    written = script.index("printf '%s\\n'")
    command = script[written : script.index(" > /etc/determined/agent.yaml")]
    ran = subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=True)
    assert '"resource_pool": "it\'s $HOME `id`' in ran.stdout


def test_a_machine_with_gpus_joins_with_them_or_not_at_all() -> None:
    script = user_data(BOOTS["machine with GPUs"])
    assert '"slots": "cuda"' in script
    assert "nvidia-smi -L" in script
    chosen = user_data(replace(BOOTS["machine with GPUs"], agent_config={"slots": "artificial:1"}))
    assert '"slots": "artificial:1"' in chosen
    assert "nvidia-smi -L" not in chosen


def test_what_a_console_says_last_is_the_reason_without_steps_and_dates() -> None:
    failed = "determined-boot: installing docker\nE: no such package\ndetermined-boot: failed at line 3\npower off"
    assert last_words(failed) == "E: no such package"
    waits = (
        "determined-boot: done\n2026-01-01 WARNING the cluster refused, trying again: wrong clock\n"
    )
    assert last_words(waits) == "wrong clock"
    assert last_words("determined-boot: done\n") == ""
    assert len(last_words("x" * 5000)) < 400


@contextmanager
def booted(boot: Boot, folder: Path, installed: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the script in a machine of its own, as far as namespaces make one; everything ends with the block."""
    script = folder / "user-data.sh"
    script.write_text(user_data(boot))
    scratch = folder / "scratch"
    scratch.mkdir()
    inside = MACHINE.format(
        scratch=scratch,
        venv=VENV,
        script=script,
        python=sys.executable,
        installed=installed.format(folder=folder),
    )
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    machine = subprocess.Popen(
        [*apart, "bash", "-c", inside], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with machine:
        try:
            yield machine
        finally:
            machine.kill()


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    made = FakeControlPlane()
    yield made
    made.close()


def boot_and_join(plane: FakeControlPlane, folder: Path, installed: str) -> list[str]:
    """Boot a machine until its agent polls; return what it printed and called."""
    token = folder / "token"
    token.write_text(JOIN_TOKEN)
    boot = Boot(
        "ours", plane.url, "gpus", "token",
        startup_script="echo operator >> /var/log/operator && exit 0",
        agent_config={
            "token_file": str(token), "container_runtime": "process", "slots": "artificial:2",
            "agent_id": "rented",
        },
    )  # fmt: skip
    with booted(boot, folder, installed) as machine:
        assert machine.stdout is not None
        said = []
        while (line := machine.stdout.readline()) not in ("complete\n", ""):
            said.append(line.strip())
        assert "booted" in said, said
        plane.until(lambda: plane.polls > 1)
    return said


AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("mounts are for root only", skips.AS_ROOT)
)


@AS_ROOT
def test_a_machine_with_the_agent_boots_until_it_joins_and_polls(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    said = boot_and_join(plane, tmp_path, VENV + "/bin")
    steps = [line for line in said if line.startswith("determined-boot: ")]
    assert steps[-1] == "determined-boot: done"
    assert not [step for step in steps if "installing" in step], "everything was there"
    assert [
        line for line in said if line.endswith("iptables -C DOCKER-USER -d 169.254.169.254 -j DROP")
    ]
    assert (plane.joins[0]["agent_id"], plane.joins[0]["pool"]) == ("rented", "gpus")
    assert not Path("/etc/determined").exists(), "nothing of it was written to this machine"


@AS_ROOT
def test_a_python_that_makes_no_environments_is_completed_first(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    said = boot_and_join(plane, tmp_path, "{folder}/scratch/installed")
    called = [line.rpartition("/")[2] for line in said if line.startswith("/")]
    update = called.index("apt-get update -q")
    install = called.index("apt-get install -qy --no-install-recommends python3 python3-venv")
    assert update < install < called.index("pip install -q determined-serverless")
