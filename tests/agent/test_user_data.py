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

ROOT = Path(__file__).resolve().parents[2]
PLAIN = Boot("ours", "https://cluster.example", "gpus", "aws")
HOSTILE = 'it\'s $HOME `id` "quoted" \\ %s {braces}\nand a second line'
BOOTS = {
    "plain": PLAIN,
    "hostile names": Boot(HOSTILE, f"https://{HOSTILE}", HOSTILE, "gcp", package=HOSTILE),
    "startup script": Boot(
        "ours", "https://c", "gpus", "aws", startup_script="if true; then\n  echo 'it'\nfi\n# end"
    ),
    "last script": Boot(
        "ours", "https://c", "gpus", "aws", last_script="if true; then\n  exit 0\nfi"
    ),
    "empty startup script": Boot("ours", "https://c", "gpus", "aws", startup_script="\n\n"),
    "images": Boot("ours", "https://c", "gpus", "aws", images=("registry/it's:1", "$(id)")),
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
for program in docker iptables apt-get systemctl findmnt; do
    printf '#!/bin/sh\\necho "$0 $*" >> {scratch}/called\\n' > {scratch}/bin/$program
done
echo 'case "$*" in *none*) exit 1 ;; esac' >> {scratch}/bin/docker
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
timeout 30 sh -c 'until grep -q milk {scratch}/called; do sleep 0.05; done'
cat /var/log/determined-boot.log {scratch}/called
grep . /var/log/determined-images.log
echo complete
read until_the_test_ends
"""


@pytest.mark.parametrize("boot", BOOTS.values(), ids=BOOTS)
def test_bash_can_parse_the_script(boot: Boot) -> None:
    result = subprocess.run(["bash", "-n"], input=user_data(boot), text=True, capture_output=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_values_of_operators_are_quoted(tmp_path: Path) -> None:
    script = user_data(BOOTS["hostile names"])
    position = script.index("printf '%s\\n'")
    command = script[position : script.index(" > /etc/determined/agent.yaml")]
    result = subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=True)
    assert '"resource_pool": "it\'s $HOME `id`' in result.stdout


def test_machine_with_gpus_requires_its_gpus() -> None:
    script = user_data(BOOTS["machine with GPUs"])
    assert '"slots": "cuda"' in script
    assert "nvidia-smi -L" in script
    chosen_script = user_data(
        replace(BOOTS["machine with GPUs"], agent_config={"slots": "artificial:1"})
    )
    assert '"slots": "artificial:1"' in chosen_script
    assert "nvidia-smi -L" not in chosen_script


def test_google_cloud_machine_gets_a_longer_stop_grace() -> None:
    google = replace(PLAIN, provider="gcp")
    assert '"stop_grace": 20' in user_data(google)
    assert '"stop_grace": 5' in user_data(replace(google, agent_config={"stop_grace": 5}))
    assert "stop_grace" not in user_data(PLAIN)


def test_startup_script_of_a_pool_runs_between_docker_and_agent() -> None:
    script = user_data(replace(PLAIN, last_script="docker login registry"))
    docker, agent = script.index("installing docker"), script.index('step "starting the agent"')
    assert docker < script.index("docker login registry") < agent
    assert "container startup script" not in user_data(PLAIN)


def test_pool_images_are_pulled_after_the_startup_script() -> None:
    script = user_data(replace(PLAIN, last_script="docker login registry", images=("a/b:1", "c")))
    pull, agent = script.index("images a/b:1 c < /dev/null"), script.index('"starting the agent"')
    assert script.index("docker login registry") < pull < agent
    assert "docker pull" not in user_data(PLAIN)


def test_last_console_words_omit_steps_and_dates() -> None:
    message = "determined-boot: installing docker\nE: no such package\ndetermined-boot: failed at line 3\npower off"
    assert last_words(message) == "E: no such package"
    waits = (
        "determined-boot: done\n2026-01-01 WARNING the cluster refused, trying again: wrong clock\n"
    )
    assert last_words(waits) == "wrong clock"
    assert last_words("determined-boot: done\n") == ""
    assert len(last_words("x" * 5000)) < 400


APT = """#!/bin/sh
echo "apt-get $*" >> {folder}/called
[ "$(grep -c "apt-get .* $3" {folder}/called)" -gt {refusals} ] || {{
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 812 (apt-get)" >&2
    exit 100
}}
"""


def run_apt(folder: Path, script: str, refusals: int) -> "subprocess.CompletedProcess[str]":
    """Run a script's function `apt` while apt's lock is held for so many calls, without sleeping."""
    programs = {"apt-get": APT.format(folder=folder, refusals=refusals)}
    programs["sleep"] = f'#!/bin/sh\necho "sleep $1" >> {folder}/called\n'
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    function = script[script.index("apt() {") : script.index("\n}\n", script.index("apt() {")) + 3]
    command = f'set -eu; step() {{ echo "$*"; }}; {function}apt update -q\necho went on'
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], env={"PATH": path}, text=True, capture_output=True, check=False
    )


SCRIPTS = {
    "user data": user_data(PLAIN),
    "image": (ROOT / "agent_ami" / "packer" / "provision.sh").read_text(),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_installation_waits_for_the_apt_lock(script: str, tmp_path: Path) -> None:
    result = run_apt(tmp_path, script, refusals=2)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("went on\n")
    call = "apt-get -o DPkg::Lock::Timeout=600 update -q"
    calls = (tmp_path / "called").read_text().splitlines()
    assert calls == [call, "sleep 5", call, "sleep 10", call]


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_failed_installation_ends_the_script(script: str, tmp_path: Path) -> None:
    result = run_apt(tmp_path, script, refusals=100)
    assert result.returncode == 100
    assert "went on" not in result.stdout
    assert result.stdout.count("update failed: again in") == 5


@contextmanager
def booted(boot: Boot, folder: Path, installed: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the script in a machine made of namespaces; all its processes end with the block."""
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
    fake_control_plane = FakeControlPlane()
    yield fake_control_plane
    fake_control_plane.close()


STARTUP = "echo operator >> /var/log/operator && exit 0"


def boot_and_join(
    plane: FakeControlPlane, folder: Path, installed: str, startup: str = STARTUP
) -> list[str]:
    """Boot a machine until its agent polls. Return its output and calls."""
    token = folder / "token"
    token.write_text(JOIN_TOKEN)
    boot = Boot(
        "ours", plane.url, "gpus", "token",
        startup_script=startup,
        images=("tea:1", "none:2", "milk:3"),
        agent_config={
            "token_file": str(token), "container_runtime": "process", "slots": "artificial:2",
            "agent_id": "rented",
        },
    )  # fmt: skip
    with booted(boot, folder, installed) as machine:
        assert machine.stdout is not None
        output = []
        while (line := machine.stdout.readline()) not in ("complete\n", ""):
            output.append(line.strip())
        assert "booted" in output, output
        plane.until(lambda: plane.polls > 1)
    return output


AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("mounts are for root only", skips.AS_ROOT)
)


METADATA_RULES = ["-j DROP", "-p tcp --dport 53 -j RETURN", "-p udp --dport 53 -j RETURN"]


def metadata_rules(output: list[str]) -> list[str]:
    rules = [line for line in output if "iptables -C DOCKER-USER -d 169.254.169.254" in line]
    return [rule.partition("254.169.254 ")[2] for rule in rules]


@AS_ROOT
def test_machine_with_an_agent_boots_and_joins(plane: FakeControlPlane, tmp_path: Path) -> None:
    output = boot_and_join(plane, tmp_path, VENV + "/bin")
    steps = [line for line in output if line.startswith("determined-boot: ")]
    assert steps[-1] == "determined-boot: done"
    assert not [step for step in steps if "installing" in step], "the image contains all programs"
    assert metadata_rules(output) == METADATA_RULES
    images = [line.partition("/docker ")[2] for line in output if "docker pull" in line]
    assert images == ["pull -q tea:1", "pull -q none:2", "pull -q milk:3"]
    assert "none:2 could not be pulled" in output
    files = [line.rpartition("/")[2] for line in output if line.startswith("/")]
    assert "systemctl enable determined-scratch determined-block-metadata" in files
    assert "systemctl start determined-scratch" in files
    assert (plane.joins[0]["agent_id"], plane.joins[0]["pool"]) == ("rented", "gpus")
    assert not Path("/etc/determined").exists(), "the script must not write to this machine"


@AS_ROOT
def test_older_agent_image_still_blocks_the_metadata_service(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    older = f"""sed -i '2i [ "$1" != machine-setup ] || exit 2' {VENV}/bin/det-agent"""
    output = boot_and_join(plane, tmp_path, VENV + "/bin", startup=older)
    assert any("has an agent of an earlier release" in line for line in output)
    assert metadata_rules(output) == METADATA_RULES


@AS_ROOT
def test_missing_venv_module_is_installed_first(plane: FakeControlPlane, tmp_path: Path) -> None:
    output = boot_and_join(plane, tmp_path, "{folder}/scratch/installed")
    files = [line.rpartition("/")[2] for line in output if line.startswith("/")]
    apt = "apt-get -o DPkg::Lock::Timeout=600"
    update = files.index(f"{apt} update -q")
    install = files.index(f"{apt} install -qy --no-install-recommends python3 python3-venv")
    assert update < install < files.index("pip install -q determined-serverless")
