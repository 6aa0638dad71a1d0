"""Suggest a command for words that name none: typing errors, abbreviations, words of other tools, forgotten groups."""

from importlib import import_module

from det_cli.catalog import ENTRIES

# Words of other tools and of the WebUI, by the command with the same meaning.
_SYNONYMS = {
    "rm": ("delete",), "remove": ("delete",), "del": ("delete",), "show": ("describe",), "info": ("describe",),
    "get": ("describe",), "inspect": ("describe",), "stop": ("cancel", "kill", "cluster-down"), "abort": ("kill",),
    "resume": ("activate",), "start": ("create", "cluster-up"), "submit": ("create",), "new": ("create",),
    "run": ("create",), "edit": ("set",), "up": ("cluster-up",), "down": ("cluster-down",), "ps": ("list",),
}  # fmt: skip
_TOP_LEVEL = {
    "queue": "job list", "gpu": "slot list", "gpus": "slot list", "ps": "task list", "status": "deploy local status",
    "up": "deploy local cluster-up", "down": "deploy local cluster-down", "submit": "experiment create",
    "train": "experiment create", "ls": "experiment list", "exp": "experiment", "exps": "experiment",
    "jupyter": "notebook start", "ssh": "shell start", "cluster": "master info",
}  # fmt: skip
_FORK = (
    "`det experiment config ID` and `det experiment download-model-def ID` give the parts of a fork for"
    " `det experiment create`; `det experiment continue ID` trains further"
)
# The groups that users forget first, and the most suggestions.
_FORGOTTEN = ("experiment", "trial", "task", "user", "job", "checkpoint")
_MOST, _CLOSE = 3, 0.6


def hint(word: str, path: str, names: "list[str]") -> str:
    """Return the hint for an unknown word after `det PATH`, where `names` are valid."""
    where = f"det {path}".rstrip()
    if word == "fork" and path in ("", "experiment"):
        return _FORK
    commands = [f"{where} {name}" for name in _similar(word, path, names)]
    if not commands and not path:
        commands = [f"det {group} {word}" for group in _FORGOTTEN if _has_member(group, word)]
    if not commands:
        return f"`{where} --help` lists the commands"
    return f"did you mean {' or '.join(f'`{command}`' for command in commands[:_MOST])}?"


def _similar(word: str, path: str, names: "list[str]") -> "list[str]":
    """Return commands with the same meaning, else commands that begin with the word, else similar commands."""
    if not path and word in _TOP_LEVEL:
        return [_TOP_LEVEL[word]]
    if synonyms := [name for name in _SYNONYMS.get(word, ()) if name in names]:
        return synonyms
    # Short aliases such as `s` look like many words.
    long_names = [name for name in names if len(name) > 2]
    begun = [name for name in long_names if len(word) > 1 and name.startswith(word)]
    if begun:
        return begun
    if not path and any(_has_member(group, word) for group in _FORGOTTEN):
        return []
    import difflib

    return difflib.get_close_matches(word, long_names, _MOST, _CLOSE)


def _has_member(group: str, word: str) -> bool:
    from det_cli.declare import Group

    module = next(module for name, _, module, _ in ENTRIES if name == group)
    node = import_module(f"det_cli.commands.{module}").MEMBERS[group]
    return isinstance(node, Group) and node.member(word) is not None
