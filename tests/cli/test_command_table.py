"""The command declarations are complete and consistent and accept the calls of Determined's users."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from det_cli import reference
from det_cli.catalog import ENTRIES
from det_cli.declare import Command, Group
from det_cli.find import find
from det_cli.parse import parse, parser_for

from tests.cli.conftest import Det

ROOT = Path(__file__).resolve().parents[2]


def nodes() -> Iterator[tuple[list[str], "Command | Group"]]:
    for name, _, module, _ in ENTRIES:
        yield from below([name], import_module(f"det_cli.commands.{module}").MEMBERS[name])


def below(
    path: list[str], node: "Command | Group"
) -> Iterator[tuple[list[str], "Command | Group"]]:
    yield path, node
    if isinstance(node, Group):
        for member in node.members:
            yield from below([*path, member.name], member)


ALL = list(nodes())
COMMANDS = [(path, node) for path, node in ALL if isinstance(node, Command)]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_every_command_has_its_action_and_help(path: list[str], command: Command) -> None:
    module, _, function = command.run.partition(":")
    assert callable(getattr(import_module(f"det_cli.actions.{module}"), function))
    assert "usage: det " + " ".join(path) in parser_for(path, command).format_help()


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(p) for p, _ in COMMANDS])
def test_no_argument_has_the_name_of_a_global_option(path: list[str], command: Command) -> None:
    options_of_parser = {action.dest for action in parser_for(path, command)._actions}
    assert options_of_parser.isdisjoint({"user", "master", "command_path", "group_options"})


def test_the_catalogue_matches_the_declarations() -> None:
    for name, aliases, module, help in ENTRIES:
        node = import_module(f"det_cli.commands.{module}").MEMBERS[name]
        assert (node.name, node.aliases, node.help) == (name, aliases, help)


def test_the_help_of_trials_mentions_their_metrics(det: Det) -> None:
    line_of_describe = next(
        line for line in det("trial", "--help").out.splitlines() if "  describe " in line
    )
    assert "--metrics" in line_of_describe


def test_command_names_and_aliases_are_unique() -> None:
    top = [w for name, aliases, _, _ in ENTRIES for w in (name, *aliases)]
    assert len(top) == len(set(top))
    for _, node in ALL:
        if isinstance(node, Group):
            words = [w for m in node.members for w in (m.name, *m.aliases)]
            assert len(words) == len(set(words))
            assert not node.default or node.member(node.default)


# One call for each common command, with the options that Determined documents.
DAILY = """\
agent disable a --drain
agent enable --all
a ls --csv
checkpoint describe u
c download u -o d -q --mode direct
cmd config c
cmd describe c --json
cmd kill c d -f
cmd list --sort-by username --order-by desc -q -w w --all --csv
cmd logs c -f --tail 3 --level INFO
cmd run --config-file f -v /a:/b -c d -i x --config a=b --template t -d python3 x.py --lr 1
command set priority c 3
c rm u,v --glob *.pt --yes
config-policies delete tasks
cp describe experiment -w w --json
cp set experiment f
deploy local agent-up host --master-port 8080 --agent-name n --agent-resource-pool p --no-gpu
deploy local cluster-down --cluster-name c --delete-db
d local cluster-up --master-config-path m --agents 2 --master-port 9 --no-gpu --no-autorestart --initial-user-password x
deploy local cluster-up --storage-host-path d --cluster-name c --db-password p --auto-work-dir w --gpu --det-version v
deploy local logs --no-follow
deploy local master-up --master-name m --db-password p --image-repo-prefix p
deploy local master-down --master-name m --delete-db
deploy --no-preflight-checks --no-wait-for-master --image-repo-prefix p aws list --region r --profile p
d aws up --cluster-id c --keypair k --region r --add-tag a=b --add-tag c=d --profile p --master-instance-type t
d aws up --cluster-id c --master-tls-cert c --master-tls-key k --master-cert-name n --gpu-agent-instance-type t
d aws up --cluster-id c --cpu-agent-instance-type t --deployment-type secure --inbound-cidr 0.0.0.0/0
d aws up --cluster-id c --agent-subnet-id s
d aws up --cluster-id c --det-version v --db-password p --db-snapshot= --db-instance-type db.m7g.large --db-size 20
d aws up --cluster-id c --max-idle-agent-period 5m --max-agent-starting-period 5m --max-cpu-containers-per-agent 3
d aws up --cluster-id c --min-dynamic-agents 1 --max-dynamic-agents 2 --spot --spot-max-price 0.5
d aws up --cluster-id c --scheduler-type priority --preemption-enabled true --cpu-env-image i --gpu-env-image i
d aws up --cluster-id c --agent-reattach-enabled true --agent-reconnect-attempts 5 --agent-reconnect-backoff 5
d aws up --cluster-id c --shut-down-agents-on-connection-loss --no-update-terminate-agents --yes
d aws up --cluster-id c --update-terminate-agents --no-prompt --enterprise-edition --docker-user u --docker-pass p
d aws up --cluster-id c --notebook-timeout 600 --initial-user-password p
d aws down --cluster-id c --region r --profile p --no-prompt
d aws dump-master-config-template --deployment-type simple-rds
d gcp up --cluster-id c --project-id p --dry-run --keypath f --network det-default --filestore-address= --no-filestore
d gcp up --cluster-id c --det-version v --region r --zone z --disk-size 200 --disk-type pd-ssd --environment-image i
d gcp up --cluster-id c --local-state-path . --preemptible true --operation-timeout-period 5m --master-instance-type t
d gcp up --cluster-id c --gpu-agent-instance-type t --cpu-agent-instance-type t --db-password p --port 8080
d gcp up --cluster-id c --max-cpu-containers-per-agent 3 --gpu-type g --gpu-num 4 --min-cpu-platform-master p
d gcp up --cluster-id c --min-cpu-platform-agent p --scheduler-type fair_share --preemption-enabled false
d gcp up --cluster-id c --cpu-env-image i --gpu-env-image i --tf-state-gcs-bucket-name b --add-label a=b --no-prompt
d gcp down --cluster-id c --project-id p --local-state-path . --no-prompt
d gcp list --project-id p --tf-state-gcs-bucket-name b --json
d gcp dump-master-config-template
e activate 1
e unpause 1
e continue 1 --config-file f --config a=b -f
e create c.yaml d -i x -i y --template t --project_id 3 --config a.b=c --config d=e -f
e create c.yaml d --paused
e create c.yaml d --local -t
e delete 1 --yes
e describe 1,2 --metrics --csv
e describe 1 --json --outdir d
e download 1 -o d --top-n 2 --sort-by m --smaller-is-better true -q
e label add 1 x
e list -a --show_project --limit 10 --offset 5 --pages 1 --csv
e lc 1 --best 3 --csv
e lt 1 --limit 5
e logs 1 -f --tail 5 --container-id c --rank-id 0 --timestamp-before t --level UNSPECIFIED
e move 1 w p
e set gc-policy 1 --save-experiment-best 0 --save-trial-best 1 --save-trial-latest 1 --yes
e set max-slots 1 4
e set priority 1 42
e wait 1 --polling-interval 2
job list -p default --limit 5 --reverse --yaml
j u j1 -p 3
j u j1 --ahead-of j2
master config
master config show --yaml
master config set --log.level DEBUG --log.color off
master info --json
master logs -f --tail 3
m create n -w w --description d --json
m describe n --version 2
m list --sort-by name --order-by desc
m register-version n u
preview-search c.yaml
notebook config n
notebook kill n -f
notebook list -a -q
notebook open n
notebook start --config-file f -c d -w w --config a=b --no-browser -d
notebook start --preview
shell open s --show-ssh-command
shell show_ssh_command s
shell start -d --config a=b -v /a:/b
tensorboard open t
tensorboard start 1 2 -w w --no-browser -d
tensorboard start -t 1 2
p create w n --description d --key k
p list w --sort-by name
p list-experiments w n -a --sort-by name --order-by desc --limit 5 --offset 1
rp bindings add p w1 w2
slot list --json
task list --csv
task config t --json
task create f -c d -i x --project_id 2 --config a=b -f --fork t --parent p --inherit_context --no_pause
task fork t -f
task kill t --root
task pause t
task unpause t
task logs t -f --allocation-id a --level TRACE
tkn create bob -e 2 -d ci --json
token describe 1 2 --yaml
token edit 1 -d x --json
token list bob --show-inactive
token login t
token revoke 1
tpl create t f -w w
tpl ls -d
tpl set-value config t f
t describe 1 --metrics-summary --metrics --json --limit 5 --pages 1
t download 1 --best --sort-by m --smaller-is-better false -o d -q
t logs 1 --head 3 --json
t support-bundle 1 -o d
u change-password bob
u create bob --admin --password x --remote
u edit bob --display-name B --active true --admin false
u link-with-agent-user bob --agent-uid 1 --agent-user u --agent-gid 2 --agent-group g
u list -a
u login bob
u logout --all
version
w create n --default-compute-pool p --checkpoint-storage-config {}
w delete n --yes
w list --sort-by name --order-by desc --limit 3"""


@pytest.mark.parametrize("line", DAILY.splitlines())
def test_accepts_calls_of_determineds_users(line: str) -> None:
    match = find(line.split())
    assert isinstance(match.node, Command)
    parse(match, {})


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert page == reference.page(), "run: python -m det_cli.reference > docs/reference/cli.md"


def test_completion_offers_all_commands(det: Det) -> None:
    script = det("completion", "bash").out
    assert '"experiment set"' in script
    assert "update-batch" in script
    assert det("completion", "zsh").out.startswith("#compdef det")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["det", "exper"], "experiment"),
        (["det", "e", "cr"], "create"),
        (["det", "-m", "host", "e", "set", "max"], "max-slots"),
        (["det", "e", "wait", "--pol"], "--polling-interval"),
        (["det", "deploy", "local", "cluster-u"], "cluster-up"),
    ],
)
def test_bash_completes_words(det: Det, tmp_path: Path, typed: list[str], offered: str) -> None:
    import shlex
    import subprocess

    script = tmp_path / "det.bash"
    script.write_text(det("completion", "bash").out)
    words = shlex.join(typed)
    code = f'. {script}; COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _det; echo "${{COMPREPLY[*]}}"'
    result = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [offered]


def test_the_reference_uses_the_argument_names_of_the_help(det: Det) -> None:
    result = det("command", "kill")
    assert "required: command_id" in result.err
    assert "| `command_id` | the ids of commands" in reference.page()
    assert "`task_ids`" not in reference.page()
