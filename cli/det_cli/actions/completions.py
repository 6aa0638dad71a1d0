"""`det completion`: completion scripts, generated from the command declarations."""

import argparse
from importlib import import_module

from det_cli.catalog import ENTRIES
from det_cli.declare import Arg, Command, Group, OneOf

_BASH = """\
# Load it with:  source <(det completion bash)
_det() {{
    local words="" path="" word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        case "$word" in -u|--user|-m|--master) ((i++)); continue ;; -*) continue ;; esac
        path="${{path:+$path }}$word"
    done
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
    [[ -n "${{COMPREPLY[*]}}" ]] || COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o filenames -F _det det
"""
_ZSH = "#compdef det\nautoload -U +X bashcompinit && bashcompinit\n"


def print_script(args: argparse.Namespace) -> None:
    print(script(args.shell), end="")


def script(shell: str) -> str:
    nodes = [import_module(f"det_cli.commands.{e[2]}").MEMBERS[e[0]] for e in ENTRIES]
    words = [name for node in nodes for name in (node.name, *node.aliases)]
    cases = [_case([""], [*words, "-u", "-m", "--help"])]
    for node in nodes:
        cases += _cases([""], node)
    body = _BASH.format(cases="\n".join(cases))
    return (_ZSH if shell == "zsh" else "") + body


def _cases(parents: list[str], node: "Command | Group") -> list[str]:
    paths = [f"{p} {n}".lstrip() for p in parents for n in (node.name, *node.aliases)]
    if isinstance(node, Command):
        return [_case([f"{p}*" for p in paths], _flags(node))]
    names = [n for m in node.members for n in (m.name, *m.aliases)]
    inner = [case for member in node.members for case in _cases(paths, member)]
    return [_case(paths, names), *inner]


def _case(paths: list[str], words: list[str]) -> str:
    patterns = "|".join(f'"{p[:-1]}"|"{p[:-1]} "*' if p.endswith("*") else f'"{p}"' for p in paths)
    return f'        {patterns}) words="{" ".join(words)}" ;;'


def _flags(command: Command) -> list[str]:
    args = [a for arg in command.args for a in (arg.args if isinstance(arg, OneOf) else [arg])]
    flags = [n for a in args if isinstance(a, Arg) for n in a.names if n.startswith("--")]
    return [*flags, "--help"]
