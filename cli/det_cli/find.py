"""Find the command or group that the words of a command line name."""

from importlib import import_module
from typing import TYPE_CHECKING

from det_cli.catalog import ENTRIES, PLURALS
from det_cli.errors import UsageError

if TYPE_CHECKING:
    from det_cli.declare import Arg, Command, Group

_HELP = ("-h", "--help", "help")
# Commands of Determined without a counterpart, with the reason.
_NO_KUBERNETES = (
    "Kubernetes is not used here: `det resource-pool bindings` reserves a pool for workspaces,"
    " and `det budget` limits the spending of a workspace"
)
NOT_HERE = {
    "oauth": "programs are registered at your identity provider: see docs/guides/sign-in.md",
    "deploy gke-experimental": "Kubernetes is not used here: use `det deploy gcp`",
    "workspace bindings": _NO_KUBERNETES,
    "workspace resource-quota": _NO_KUBERNETES,
}


class Match:
    """The command or group that the words name, and the remaining words."""

    def __init__(
        self, path: list[str], node: "Command | Group", rest: list[str], options: "list[Arg]"
    ) -> None:
        self.path = path
        self.node = node
        self.rest = rest
        self.group_args = options  # options between the group's name and the command's name
        self.group_options = [name for arg in options for name in arg.names]


def names_of(node: "Command | Group") -> "list[str]":
    """Return the names of a command's arguments as users type them."""
    from det_cli.declare import OneOf

    args = [a for arg in node.args for a in (arg.args if isinstance(arg, OneOf) else (arg,))]
    return [name for arg in args for name in arg.names]


def top_level(word: str) -> "Command | Group | None":
    word = PLURALS.get(word, word)
    for name, aliases, module, _ in ENTRIES:
        if word == name or word in aliases:
            members = import_module(f"det_cli.commands.{module}").MEMBERS
            node: Command | Group | None = members.get(name)
            return node
    return None


def find(words: list[str]) -> Match:
    """Walk down the groups until a command, `help` or -h. Raise UsageError for an unknown word."""
    from det_cli.declare import Group

    node = top_level(words[0])
    if node is None:
        raise unknown(words[0], "", [n for e in ENTRIES for n in (e[0], *e[1])])
    path, rest = [node.name], words[1:]
    options: list[Arg] = []
    while isinstance(node, Group):
        group_args, rest = _own_options(node, rest)
        options += group_args
        if not rest or (rest[0].startswith("-") and rest[0] not in _HELP):
            rest = _with_default(node, path, rest)
        if rest[0] in _HELP:
            return Match(path, node, ["-h"], options)
        member = node.member(rest[0])
        if member is None:
            names = [n for m in node.members for n in (m.name, *m.aliases)]
            raise unknown(rest[0], " ".join(path), names)
        node, rest = member, rest[1:]
        path.append(node.name)
    return Match(path, node, rest, options)


def _with_default(group: "Group", path: list[str], words: list[str]) -> list[str]:
    """Insert the group's default command before the words, or -h if the group has no default."""
    if group.default:
        return [group.default, *words]
    if words:
        where = f"det {' '.join(path)}"
        hint = f"`{where} --help` lists the commands"
        raise UsageError(f"{where} has no option '{words[0]}'", hint)
    return ["-h"]


def _own_options(group: "Group", words: list[str]) -> "tuple[list[Arg], list[str]]":
    """Split off the options before the member's name (`det deploy --x local …`)."""
    args: list[Arg] = []
    while words:
        name, equals, _ = words[0].partition("=")
        arg = next((a for a in group.args if name in a.names), None)
        if arg is None:
            break
        takes_value = not arg.options.get("action")
        if equals and not takes_value:
            raise UsageError(f"option {name} takes no value")
        if takes_value and not equals and len(words) == 1:
            raise UsageError(f"option {name} needs a value")
        args, words = [*args, arg], words[2 if takes_value and not equals else 1 :]
    return args, words


def unknown(word: str, path: str, names: list[str]) -> UsageError:
    from det_cli.suggest import hint

    where = f"det {path}".rstrip()
    why = NOT_HERE.get(f"{path} {word}".strip())
    if why:
        return UsageError(f"{where} does not have Determined's command '{word}'", why)
    return UsageError(f"{where} has no command '{word}'", hint(word, path, names))
