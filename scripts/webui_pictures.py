"""Draws the pictures of docs/webui-pages.md: trains on a cluster of its own, opens its pages in Chromium.

python -m scripts.webui_pictures   some minutes; the pictures are written anew
"""

import base64
import json
import re
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.browser import Tab, chromium, opened
from tests.support.cluster import Cluster, local_cluster

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "webui-pages.md"
PICTURES = ROOT / "docs" / "pictures"
_EXAMPLE = ROOT / "examples" / "numpy_digits"
_CONFIG = "security: {authz: {type: rbac}}\ncluster_name: vision-lab\nwebhooks: {allow_private_targets: true}"
_OF_ADMINISTRATORS = ("/admin", "/budgets", "/webhooks", "/templates")
_QUALITY = 0.82
_WAIT_MS = 1_500  # for curves, and for what is written while they are drawn
# Browsers write WebP themselves: no library of pictures is needed.
_TO_WEBP = """async ([png, quality]) => {
    const image = new Image();
    image.src = png;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0);
    const blob = await canvas.convertToBlob({type: "image/webp", quality});
    return new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result.split(",")[1]);
        reader.readAsDataURL(blob);
    });
}"""


class _Administrator:
    """Calls of the API, with a token."""

    def __init__(self, cluster: Cluster) -> None:
        self._base, self._token = f"http://127.0.0.1:{cluster.port}/api/v1", ""
        self._token = self.call("POST", "/auth/login", username="admin", password="")["token"]

    def call(self, method: str, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as response:
            return json.loads(response.read())


def _people(admin: _Administrator) -> None:
    """Make a team with roles, templates, budgets and a webhook."""
    group = admin.call("POST", "/groups", name="vision-team")["group"]["groupId"]
    for username, shown in (("ada", "Ada L."), ("grace", "Grace H."), ("linus", "Linus P.")):
        user = {"username": username, "displayName": shown, "active": True}
        made = admin.call("POST", "/users", user=user, password="a first password")["user"]
        admin.call("PUT", f"/groups/{group}", addUsers=[made["id"]])
    for holder, id, role in (("group", group, 5), ("user", 2, 2), ("user", 3, 4)):
        given = {"role": {"roleId": role}, "scopeWorkspaceId": 1}
        assignments = [{f"{holder}Id": id, "roleAssignment": given}]
        admin.call("POST", "/roles/add-assignments", **{f"{holder}RoleAssignments": assignments})
    config = "resources:\n  slots_per_trial: 8\nenvironment:\n  image: pytorch/pytorch:latest\n"
    admin.call("POST", "/templates/eight-gpus", config=config)
    for scope, of, limit in (("user", "ada", "250"), ("workspace", "Uncategorized", "4000")):
        admin.call("PUT", "/budgets", scope=scope, of=of, limitUsd=limit, period="month")
    triggers = [
        {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"}},
        {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "CUDA error"}},
    ]  # fmt: skip
    admin.call(
        "POST", "/webhooks", name="chat", url="http://127.0.0.1:9/services/vision", webhookType="WEBHOOK_TYPE_SLACK",
        mode="WEBHOOK_MODE_WORKSPACE", workspaceId=1, triggers=triggers,
    )  # fmt: skip


def _work(cluster: Cluster, admin: _Administrator) -> tuple[int, int]:
    """Train a search, and leave others that run, wait and failed. Return the first and its best trial."""
    admin.call("POST", "/roles/add-assignments", userRoleAssignments=[
        {"userId": 2, "roleAssignment": {"role": {"roleId": 5}, "scopeCluster": True}}
    ])  # fmt: skip
    config = _EXAMPLE / "adaptive.yaml"
    trained = cluster.create(config, _EXAMPLE, "--config", "name=digits by adaptive ASHA")
    cluster.until_state(trained, "COMPLETED", timeout_s=600)
    cluster.create(config, _EXAMPLE, "--config", "name=wider digits", "--paused")
    failed = cluster.create(
        config, _EXAMPLE, "--config", "name=digits without data", "--config", "entrypoint=exit 3",
        "--config", "max_restarts=0", "--config", "searcher.max_trials=1",
    )  # fmt: skip
    cluster.until_state(failed, "ERROR")
    cluster.create(
        config, _EXAMPLE, "--config", "name=digits on four slots", "--config", "resources.slots_per_trial=4",
        "--config", "entrypoint=sleep 600",
    )  # fmt: skip
    return trained, int(cluster.experiment(trained)["bestTrialId"])


def shots(experiment: int, trial: int) -> dict[str, tuple[str, str, int]]:
    """Return by the name of a picture its page, the theme and the width."""
    wide = 1280
    return {
        "home": ("/dashboard", "light", wide),
        "experiments": ("/experiments", "light", wide),
        "experiment": (f"/experiments/{experiment}", "light", wide),
        "search": (f"/experiments/{experiment}/search", "dark", wide),
        "hyperparameters": (f"/experiments/{experiment}/hyperparameters", "light", wide),
        "trial": (f"/trials/{trial}", "dark", wide),
        "phone": (f"/experiments/{experiment}", "light", 390),
        "queue": ("/queue", "light", wide),
        "machines": ("/cluster", "light", wide),
        "template": ("/templates/eight-gpus", "dark", wide),
        "budgets": ("/budgets", "light", wide),
        "webhooks": ("/webhooks", "light", wide),
        "people": ("/admin/people", "light", wide),
        "roles": ("/admin/roles?in=1", "light", wide),
        "audit": ("/admin/audit", "dark", wide),
    }


def _webp(tab: Tab) -> bytes:
    png = base64.b64encode(tab.page.screenshot()).decode()
    blank = tab.page.context.new_page()
    made: str = blank.evaluate(_TO_WEBP, [f"data:image/png;base64,{png}", _QUALITY])
    blank.close()
    return base64.b64decode(made)


def draw(cluster: Cluster, experiment: int, trial: int) -> None:
    PICTURES.mkdir(exist_ok=True)
    base = f"http://127.0.0.1:{cluster.port}"
    with chromium() as browser:
        for name, (path, theme, width) in shots(experiment, trial).items():
            who = "admin" if path.startswith(_OF_ADMINISTRATORS) else "determined"
            with opened(browser, base, theme=theme, width=width, user=(who, "")) as tab:
                tab.open(path)
                tab.ready()
                tab.page.wait_for_timeout(_WAIT_MS)
                made = _webp(tab)
                (PICTURES / f"{name}.webp").write_bytes(made)
                print(f"{name}: {len(made) / 1000:.0f} kB")


def named() -> list[str]:
    """Return the pictures that the page shows."""
    return re.findall(r"\]\(pictures/(\S+)\)", PAGE.read_text("utf-8"))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster(Path(folder), runtime="process", config=_CONFIG) as cluster,
    ):
        admin = _Administrator(cluster)
        experiment, trial = _work(cluster, admin)
        _people(admin)
        draw(cluster, experiment, trial)


if __name__ == "__main__":
    main()
