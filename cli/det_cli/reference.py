"""Write docs/reference/cli.md from the tables: python -m det_cli.reference > docs/reference/cli.md"""

from collections.abc import Iterator
from importlib import import_module

from det_cli.catalog import ENTRIES
from det_cli.declare import OUTPUT, Arg, Command, Group, OneOf, ReplacedArg

_HEAD = """\
# Command line

Written by `python -m det_cli.reference`; change the tables in `cli/det_cli/commands`, not this page.

`det [-u NAME] [-m ADDRESS] [-v] COMMAND …`

Commands print data to standard output and messages to standard error. Lists are tables; `--json`, `--csv`,
`--yaml` and `-o FORMAT` select another format. Arguments marked * are mutually exclusive. `NO_COLOR` turns
colours off. A group without a command runs its default command, usually `list`, or prints its commands.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong usage |
| 3 | an object or a file does not exist |
| 4 | not signed in, or permission denied |
| 5 | conflict with an existing object |
| 130 | interrupted |

| variable | meaning |
|---|---|
| `DET_MASTER` | the cluster's address (default `localhost:8080`) |
| `DET_USER`, `DET_PASS` | the user name and password to sign in with |
| `DET_NEW_PASS` | the new password for `det user create` and `det user change-password` |
| `DET_USER_TOKEN` | an access token to use instead of a password |
| `DET_MASTER_CERT_FILE` | the certificate to trust; `noverify` trusts any |
| `DET_MASTER_CERT_NAME` | the host name in the certificate |
| `DET_DEBUG` | `1` shows where an unexpected failure happened |

Without a terminal, commands read passwords from standard input, one per line. Write a new password twice:
`printf '%s\\n' "$NEW" "$NEW" | det user change-password`.

`det completion bash` and `det completion zsh` print a completion script. Load it with `source <(det completion bash)`.
"""


def page() -> str:
    parts = [_HEAD]
    for name, _, module, _ in ENTRIES:
        node = import_module(f"det_cli.commands.{module}").MEMBERS[name]
        parts.append(f"\n## det {_format_title(node)}\n")
        parts.extend(_describe_node([node.name], node))
    return "\n".join(parts).rstrip() + "\n"


def _format_title(node: "Command | Group") -> str:
    return " / ".join((node.name, *node.aliases))


def _describe_node(path: list[str], node: "Command | Group") -> Iterator[str]:
    if isinstance(node, Command):
        yield from _command(node)
        return
    yield f"{_sentence(node.help)}\n"
    replaced = [arg for arg in node.args if isinstance(arg, ReplacedArg)]
    if replaced:
        yield from _replaced_table(replaced)
    for member in node.members:
        inner = [*path, member.name]
        if isinstance(member, Group):
            yield from _describe_node(inner, member)
        else:
            yield f"### det {' '.join(path)} {_format_title(member)}\n"
            yield from _command(member)


def _command(command: Command) -> Iterator[str]:
    yield f"{_sentence(command.help)}\n"
    replaced = [arg for arg in command.args if isinstance(arg, ReplacedArg)]
    rows = [row for arg in command.args if arg not in replaced for row in _rows(arg)]
    if rows:
        yield "| argument | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    if replaced:
        yield from _replaced_table(replaced)


def _replaced_table(replaced: "list[ReplacedArg]") -> Iterator[str]:
    yield "The command also accepts these options of Determined's command and prints the answer below:\n"
    rows = [f"| {_names(arg)} | {_answer(arg)} |" for arg in replaced]
    yield "| option | answer |\n|---|---|\n" + "\n".join(rows) + "\n"


def _answer(arg: ReplacedArg) -> str:
    harmless = [f"`{value}`" for value in arg.harmless if value]
    but = f", unless it is {' or '.join(harmless)}" if harmless and arg.refused else ""
    return f"{'refused' + but + ': ' if arg.refused else ''}{arg.instead}"


def _names(arg: Arg) -> str:
    return ", ".join(f"`{name}`" for name in arg.names)


def _rows(arg: "Arg | OneOf") -> list[str]:
    if isinstance(arg, Arg):
        return [_row(arg, alone=True)]
    if arg is OUTPUT:
        return [
            "| `--json`, `--csv`, `--yaml`, `--table`, `-o`, `--output` FORMAT | output format * |"
        ]
    return [_row(one, alone=False) for one in arg.args]


def _row(arg: Arg, *, alone: bool) -> str:
    options = arg.options
    is_option = arg.names[0].startswith("-")
    called = str(options.get("metavar") or arg.names[0]).replace("|", "\\|")
    names = _names(arg) if is_option else f"`{called}`"
    value = options.get("metavar") or "\\|".join(options.get("choices") or [])
    if is_option and "action" not in options and not value:
        value = arg.names[-1].lstrip("-").upper().replace("-", "_")
    shown = f"{names} {value}" if value and is_option else names
    meaning = str(options.get("help") or "")
    default = options.get("default")
    if default not in (None, [], False, True, ""):
        meaning += f" (default: {default})" if "default" not in meaning else ""
    if not alone:
        meaning += " *"
    return f"| {shown} | {meaning.strip()} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


if __name__ == "__main__":
    print(page(), end="")
