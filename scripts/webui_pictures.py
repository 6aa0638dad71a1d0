"""Draw the pictures of docs/webui-pages.md: train on a separate cluster, and open its pages in Chromium.

python -m scripts.webui_pictures               update the pictures, which takes some minutes
python -m scripts.webui_pictures --all FOLDER  draw every page in both themes and three widths (before a release)
"""

import argparse
import base64
import json
import re
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.pictured_machines import renting
from tests.support.api import PASSWORD
from tests.support.browser import Tab, chromium, opened
from tests.support.cluster import Cluster, local_cluster

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "webui-pages.md"
PICTURES = ROOT / "docs" / "pictures"
_EXAMPLE = ROOT / "examples" / "numpy_digits"
_CONFIG = "security: {authz: {type: rbac}}\ncluster_name: vision-lab\nwebhooks: {allow_private_targets: true}"
_OF_ADMINISTRATORS = ("/admin", "/budgets", "/webhooks", "/templates")
_QUALITY = 0.82
_WAIT_MS = 1_500  # for curves, and for text that appears while they are drawn
# Browsers can write WebP themselves, so no image library is needed.
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
    """A client of the API with a token."""

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
    """Create a team with roles, templates, budgets and a webhook."""
    group = admin.call("POST", "/groups", name="vision-team")["group"]["groupId"]
    for username, display_name in (("ada", "Ada L."), ("grace", "Grace H."), ("linus", "Linus P.")):
        user = {"username": username, "displayName": display_name, "active": True}
        new_user = admin.call("POST", "/users", user=user, password="a first password")["user"]
        admin.call("PUT", f"/groups/{group}", addUsers=[new_user["id"]])
    for holder, id, role in (("group", group, 5), ("user", 2, 2), ("user", 3, 4)):
        role_assignment = {"role": {"roleId": role}, "scopeWorkspaceId": 1}
        assignments = [{f"{holder}Id": id, "roleAssignment": role_assignment}]
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


# Programs that compute, remember and write more and more, so that charts have shapes.
_BUSY = """import os, time
kept = []
for n in range(1, 200):
    end = time.time() + 0.1 * (n % 9)
    while time.time() < end: sum(range(1000))
    if n < 60: kept.append(os.urandom(1 << 21))
    with open("part", "wb") as f: f.write(os.urandom(n << 16))
    time.sleep(1)
"""


def _tasks(admin: _Administrator) -> None:
    """Start a command that works for minutes, and end a notebook."""
    common = {"resources": {"slots": 0}}
    busy = {"description": "prepare data", "entrypoint": ["python3", "-c", _BUSY]}
    admin.call("POST", "/commands", config={**common, **busy}, workspaceId=1)
    notebook = admin.call(
        "POST", "/notebooks", config={**common, "description": "look at digits"}, workspaceId=1
    )["notebook"]
    admin.call("POST", f"/notebooks/{notebook['id']}/kill")


def _work(cluster: Cluster, admin: _Administrator) -> tuple[int, int]:
    """Train a search, and create running, waiting and failed experiments. Return the search and its best trial."""
    admin.call("POST", "/roles/add-assignments", userRoleAssignments=[
        {"userId": 2, "roleAssignment": {"role": {"roleId": 5}, "scopeCluster": True}}
    ])  # fmt: skip
    _tasks(admin)
    config = _EXAMPLE / "adaptive.yaml"
    search_id = cluster.create(config, _EXAMPLE, "--config", "name=digits by adaptive ASHA")
    cluster.until_state(search_id, "COMPLETED", timeout_s=600)
    cluster.create(config, _EXAMPLE, "--config", "name=wider digits", "--paused")
    failed_experiment = cluster.create(
        config, _EXAMPLE, "--config", "name=digits without data", "--config", "entrypoint=exit 3",
        "--config", "max_restarts=0", "--config", "searcher.max_trials=1",
    )  # fmt: skip
    cluster.until_state(failed_experiment, "ERROR")
    cluster.create(
        config, _EXAMPLE, "--config", "name=digits on four slots", "--config", "resources.slots_per_trial=4",
        "--config", "entrypoint=sleep 600",
    )  # fmt: skip
    return search_id, int(cluster.experiment(search_id)["bestTrialId"])


@dataclass(frozen=True)
class Shot:
    """A page with its theme and width, and the preparation before the screenshot."""

    path: str
    theme: str = "light"
    width: int = 1280
    prepare: Callable[[Tab], None] = lambda tab: None


def shots(experiment: int, trial: int) -> dict[str, Shot]:
    """Return the pages of a cluster that trains, by picture name."""
    one = f"/experiments/{experiment}"
    return {
        "home": Shot("/dashboard"),
        "new-experiment": Shot("/experiments/new", prepare=_fill_new_experiment),
        "experiments": Shot("/experiments"),
        "experiment": Shot(one),
        "search": Shot(f"{one}/search", "dark"),
        "hyperparameters": Shot(f"{one}/hyperparameters"),
        "compare": Shot("/compare?trials=1,2,3"),
        "code": Shot(f"{one}/code?file=network.py", "dark"),
        "trial": Shot(f"/trials/{trial}", "dark"),
        "logs": Shot(f"/trials/{trial}/logs?q=validation+error"),
        "resources": Shot("/work?q=prepare", prepare=_open_resources),
        "phone": Shot(one, width=390),
        "new-task": Shot("/tasks?new=notebook", prepare=_fill_new_task),
        "work": Shot("/work"),
        "queue": Shot("/queue"),
        "machines": Shot("/cluster"),
        "rented-machines": Shot("/cluster?ended=1", "dark", prepare=_see_offers),
        "template": Shot("/templates/eight-gpus", "dark"),
        "budgets": Shot("/budgets"),
        "webhooks": Shot("/webhooks"),
        "people": Shot("/admin/people"),
        "roles": Shot("/admin/roles?in=1"),
        "audit": Shot("/admin/audit", "dark"),
    }


# This picture shows a cluster that rents machines of an in-memory cloud.
_RENTED = "rented-machines"


def _fill_new_experiment(tab: Tab) -> None:
    tab.page.get_by_label("Folder", exact=True).set_input_files(_EXAMPLE)
    tab.page.get_by_label("Load from a file").select_option(label="adaptive.yaml")
    tab.page.get_by_text("This configuration is valid.").wait_for()


def _open_resources(tab: Tab) -> None:
    """Go to the charts of the command, with at least some samples."""
    tab.page.get_by_role("link", name="prepare data").click()
    tab.page.get_by_role("link", name="Resources").click()
    tab.page.locator(".chart canvas").nth(3).wait_for()


def _see_offers(tab: Tab) -> None:
    """Scroll to the end of the page, below the machines."""
    tab.page.get_by_role("region", name="Offers").scroll_into_view_if_needed()


def _fill_new_task(tab: Tab) -> None:
    tab.page.get_by_label(re.compile("^Description")).fill("looking at digits")
    tab.page.get_by_text("Advanced configuration").click()
    tab.page.get_by_label(re.compile("^YAML")).fill("idle_timeout: 2h\n")
    tab.page.get_by_text("Ready to start.").wait_for()


_EXPERIMENT = [
    "overview",
    "trials",
    "search",
    "hyperparameters",
    "checkpoints",
    "logs",
    "code",
    "configuration",
    "notes",
]
_TRIAL = [
    "metrics",
    "workloads",
    "hyperparameters",
    "checkpoints",
    "logs",
    "resources",
    "profiler",
    "allocations",
]
_ADMIN = ["people", "groups", "roles", "policies", "tokens", "audit", "message"]
_WIDTHS = (360, 1280, 2560)


def pages(experiment: int, trial: int) -> list[str]:
    """Return the addresses of all pages."""
    return [
        "/dashboard", "/experiments", "/experiments/new", f"/compare?experiments={experiment},{experiment + 1}",
        *(f"/experiments/{experiment}/{part}" for part in _EXPERIMENT),
        *(f"/trials/{trial}/{part}" for part in _TRIAL),
        "/queue", "/cluster", "/work",
        "/tasks?ended=1", "/tasks?new=notebook", "/tasks?new=command", "/tasks?new=tensorboard",
        "/models", "/workspaces", "/settings", "/design", "/nowhere",
        "/templates", "/templates/eight-gpus", "/budgets", "/webhooks", *(f"/admin/{part}" for part in _ADMIN),
    ]  # fmt: skip


def draw_all(cluster: Cluster, experiment: int, trial: int, folder: Path) -> None:
    """Draw every page in both themes and three widths. Print the complaints of the pages."""
    base = f"http://127.0.0.1:{cluster.port}"
    with chromium() as browser:
        for theme in ("light", "dark"):
            for width in _WIDTHS:
                with opened(browser, base, theme=theme, width=width, user=("admin", "")) as tab:
                    for path in pages(experiment, trial):
                        tab.open(path)
                        tab.page.locator("h1, h2").first.wait_for()
                        tab.page.wait_for_timeout(_WAIT_MS)
                        name = re.sub(r"\W+", "-", path).strip("-")
                        tab.page.screenshot(path=folder / f"{theme}-{width}-{name}.png")
                    print(f"{theme} {width}: {len(tab.complaints)} complaints", *tab.complaints)


def _webp(tab: Tab) -> bytes:
    png = base64.b64encode(tab.page.screenshot()).decode()
    blank = tab.page.context.new_page()
    webp: str = blank.evaluate(_TO_WEBP, [f"data:image/png;base64,{png}", _QUALITY])
    blank.close()
    return base64.b64decode(webp)


def draw(cluster: Cluster, experiment: int, trial: int, only: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    base = f"http://127.0.0.1:{cluster.port}"
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        for name, shot in shots(experiment, trial).items():
            if name == _RENTED or (only and name not in only):
                continue
            username = "admin" if shot.path.startswith(_OF_ADMINISTRATORS) else "determined"
            _draw_one(browser, base, name, shot, (username, ""))
        if not only or _RENTED in only:
            with renting(Path(folder)) as address:
                shot = shots(experiment, trial)[_RENTED]
                _draw_one(browser, address, _RENTED, shot, ("admin", PASSWORD))


def _draw_one(browser: Any, base: str, name: str, shot: Shot, user: tuple[str, str]) -> None:
    with opened(browser, base, theme=shot.theme, width=shot.width, user=user) as tab:
        tab.open(shot.path)
        tab.ready()
        shot.prepare(tab)
        tab.page.wait_for_timeout(_WAIT_MS)
        picture = _webp(tab)
        (PICTURES / f"{name}.webp").write_bytes(picture)
        print(f"{name}: {len(picture) / 1000:.0f} kB", *tab.complaints)


def named() -> list[str]:
    """Return the pictures on the page."""
    return re.findall(r"\]\(pictures/(\S+)\)", PAGE.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these pictures")
    arguments = parser.parse_args()
    all_folder: Path | None = arguments.all
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster(Path(folder), runtime="process", config=_CONFIG) as cluster,
    ):
        admin = _Administrator(cluster)
        experiment, trial = _work(cluster, admin)
        _people(admin)
        if all_folder is None:
            draw(cluster, experiment, trial, arguments.names)
        else:
            all_folder.mkdir(parents=True, exist_ok=True)
            draw_all(cluster, experiment, trial, all_folder)


if __name__ == "__main__":
    main()
