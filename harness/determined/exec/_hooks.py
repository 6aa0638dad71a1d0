"""Run startup hooks in the shell that later becomes the user's command.

The exported variables, limits, umask and directory of a hook therefore apply to the command, and no second Python
is started.
"""

import base64
import os
import shutil
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from determined import _paths
from determined.common.blocking import hearing_signals
from determined.exec import _exit_reason

# The shell sources each hook, prints its environment, waits for "go", and becomes the command. A failed hook ends it.
_SCRIPT = r"""
set -e
__det_count="$1"; shift
__det_hooks=("${@:1:$__det_count}"); shift "$__det_count"
__det_command=("$@")
set --
for __det_hook in "${__det_hooks[@]}"; do source "$__det_hook"; done
env -0 >&"$DET_HOOK_ENV_FD"
eval "exec $DET_HOOK_ENV_FD>&-"
read -r __det_go <&"$DET_HOOK_GO_FD" || exit 1
eval "exec $DET_HOOK_GO_FD<&-"
unset DET_HOOK_ENV_FD DET_HOOK_GO_FD
exec "${__det_command[@]}"
"""


class NoBash(RuntimeError):
    """The image has startup hooks to run but no bash."""


def find_hooks(env: Mapping[str, str], workdir: str) -> List[str]:
    """Return the paths of the startup hooks in order: the pool's hook, then the context's `startup-hook.sh`.

    A task that deletes checkpoints has no context. Its image may contain a user's hook, which must not run.
    """
    hooks = []
    text = _pool_hook(env)
    if text:
        path = os.path.join(_paths.run_dir(), "train", "dynamic-tcd-startup-hook.sh")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        hooks.append(path)
    context_hook = os.path.join(workdir, "startup-hook.sh")
    if os.path.isfile(context_hook) and env.get("DET_TASK_TYPE") != "CHECKPOINT_GC":
        hooks.append(context_hook)
    return hooks


def _pool_hook(env: Mapping[str, str]) -> str:
    encoded = env.get("DET_TASK_STARTUP_HOOK_B64")
    if encoded:
        return base64.b64decode(encoded).decode()
    return env.get("DET_STARTUP_HOOK") or ""


class HookedShell:
    """The shell that runs the hooks: its command line, its file descriptors and the exchange with it."""

    def __init__(self, hooks: Sequence[str]) -> None:
        self._bash = shutil.which("bash")
        if self._bash is None:
            raise NoBash(
                f"bash, which startup hooks need, is not installed in {_exit_reason.image_name()}:"
                " install it there (apt-get install bash), or choose another image (environment.image)"
            )
        self._hooks = list(hooks)
        self._env_read, self._env_write = os.pipe()
        self._go_read, self._go_write = os.pipe()

    @property
    def child_fds(self) -> Tuple[int, int]:
        return self._env_write, self._go_read

    def command(self, command: Sequence[str]) -> List[str]:
        count = str(len(self._hooks))
        return [str(self._bash), "-c", _SCRIPT, "bash", count, *self._hooks, *command]

    def environment(self, env: Mapping[str, str]) -> Dict[str, str]:
        fds = {"DET_HOOK_ENV_FD": str(self._env_write), "DET_HOOK_GO_FD": str(self._go_read)}
        return {**env, **fds}

    def started(self) -> None:
        for fd in self.child_fds:
            os.close(fd)

    def wait_for_environment(self) -> Optional[Dict[str, str]]:
        """Block until every hook was sourced. Return the environment, or None if a hook failed."""
        with os.fdopen(self._env_read, "rb") as f:
            output = hearing_signals(f.read)
        if not output:
            os.close(self._go_write)
            return None
        pairs = (item.partition(b"=") for item in output.split(b"\0") if item)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def go(self) -> None:
        with os.fdopen(self._go_write, "wb") as f:
            f.write(b"go\n")

    def abandon(self) -> None:
        os.close(self._go_write)
