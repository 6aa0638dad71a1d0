"""`det deploy gcp`: clusters on Google Cloud."""

import argparse
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from det_cli.actions import deploy_cloud, deploy_image, deploy_options, deploy_rehearse
from det_cli.deployment import google_images, google_import, importing
from det_cli.deployment.cluster import ClusterSpec
from det_cli.deployment.gcp import GcpDeployment, ProjectAccess
from det_cli.deployment.google import default_project
from det_cli.deployment.google_images import BASE_IMAGE, MACHINE_TYPE, GoogleBuilder
from det_cli.deployment.pool_checks import CPU_IMAGE, GPU_IMAGE
from det_cli.errors import UsageError
from det_cli.render import print_object, say

REGION = "us-west1"
# The disk quota of new projects is 250 or 500 GB per region.
_AUX_DISK_GB = 100
# Stored options of `up` in addition to the options of all clouds.
_POOLS = (
    "zone", "gpu_type", "gpu_num", "environment_image", "preemptible", "min_cpu_platform_agent", "disk_size",
    "disk_type",
)  # fmt: skip
_STACK = ("add_label",)  # options that set stack variables
_MORE = (*_STACK, "db_backup")
_LABEL_KEY, _LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}"), re.compile(r"[a-z0-9_-]{0,63}")


def up(args: argparse.Namespace) -> None:
    options, deployment = _for_up(args)
    deploy_cloud.up(options, deployment, _place(deployment))


def rehearse(args: argparse.Namespace) -> int:
    from det_cli.commands.deploy_gcp import GCP
    from det_cli.deployment.rehearsal.google_cloud import GoogleCloud

    options, deployment = _for_up(deploy_rehearse.with_options_of_up(args, GCP))
    cloud = GoogleCloud(deployment.account, options.cluster_id)
    return deploy_rehearse.run(options, deployment, cloud, _place(deployment))


def _place(deployment: GcpDeployment) -> str:
    return f"{deployment.account.region} of project {deployment.account.project}"


def _for_up(args: argparse.Namespace) -> tuple[argparse.Namespace, GcpDeployment]:
    """Return the options of `up`, completed with the stored options, and the deployment for them."""
    alone = deploy_options.alone(args)
    preview = _deployment(alone)
    deploy_cloud.check_here(alone, preview)
    args.db_backup = args.db_backup or None
    options = deploy_options.with_stored(args, alone.config, preview, _POOLS, _MORE)
    return options, _deployment(options)


def down(args: argparse.Namespace) -> None:
    options = deploy_options.with_stored_variables(args, _deployment(args).account, _STACK)
    deploy_cloud.down(options, _deployment(options))


def list_(args: argparse.Namespace) -> None:
    account = _access(args).account(_region(args), args.endpoint_url or "")
    deploy_cloud.print_names(args, account.clusters(), f"project {account.project}")


def status(args: argparse.Namespace) -> None:
    print_object(args, _deployment(args).status())


def import_(args: argparse.Namespace) -> int:
    request = importing.request_of(args)
    account = _access(args).account(_region(args), args.endpoint_url or "")
    with google_import.ImportJob(account, args.cluster_id, say) as job:
        return job.run(request)


def image(args: argparse.Namespace) -> None:
    options = deploy_options.with_stored_variables(args, _deployment(args).account, _STACK)
    deployment = _deployment(options)
    google, region = deployment.account, _region(args)
    machine_type = args.machine_type or MACHINE_TYPE
    has_address = deploy_options.variables(options).get("machine_external_ip") is not False

    def builder(outputs: Mapping[str, Any]) -> GoogleBuilder:
        zone = args.zone or google_images.zone_of(google, region, machine_type)
        access = {"accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]} if has_address else {}
        network = {"subnetwork": outputs["machine_subnetwork"], **access}
        return GoogleBuilder(google, args.cluster_id, zone, network)

    place = deploy_image.Place("gcp", region, BASE_IMAGE, MACHINE_TYPE)
    deploy_image.run(args, deployment, place, builder)


def dump_config(args: argparse.Namespace) -> None:
    deploy_cloud.dump_config(args, deploy_options.pools(args, *_machines(args, region="")))


def dump_template(args: argparse.Namespace) -> None:
    deploy_cloud.dump_template(args, "gcp")


def _deployment(args: argparse.Namespace) -> GcpDeployment:
    preflight = deploy_cloud.runs_preflight(args)
    backup = getattr(args, "db_backup", None) or ""
    return GcpDeployment(_spec(args), _access(args), say, preflight=preflight, backup=backup)


def _access(args: argparse.Namespace) -> ProjectAccess:
    project = args.project_id or _project_of_key(args.keypath)
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or default_project()
    if not project:
        raise UsageError("no project is set", "give --project-id, or set GOOGLE_CLOUD_PROJECT")
    return ProjectAccess(project, args.keypath or "", args.tf_state_gcs_bucket_name or "")


def _project_of_key(path: str | None) -> str:
    """Return the project of a key file, or ''. Errors in the file are reported when the key is used."""
    try:
        return str(json.loads(Path(path or "").read_text("utf-8"))["project_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _region(args: argparse.Namespace) -> str:
    return args.region or os.environ.get("GOOGLE_CLOUD_REGION") or REGION


def _spec(args: argparse.Namespace) -> ClusterSpec:
    region = _region(args)
    pools = deploy_options.pools(args, *_machines(args, region))
    variables = deploy_options.variables(args)
    labels = _labels(args)
    if labels:
        variables = {"labels": labels, **variables}
    if getattr(args, "image", None):
        variables["image"] = args.image
    return ClusterSpec(
        cluster_id=args.cluster_id,
        region=region,
        config=deploy_options.config(args, pools),
        variables=variables,
        path_label=deploy_options.path_label(args),
        password=getattr(args, "initial_user_password", None) or "",
        endpoint_url=args.endpoint_url or "",
    )


def _machines(args: argparse.Namespace, region: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the provider sections of the GPU pool and the CPU pool."""
    zone = getattr(args, "zone", None)
    if zone and zone.rpartition("-")[0] != region:
        raise UsageError(f"--zone {zone} is not in {region}", "give --region too, or another zone")
    image = getattr(args, "environment_image", None)
    settings = {
        "zone": zone,
        "boot_disk_size": getattr(args, "disk_size", None),
        "boot_disk_type": getattr(args, "disk_type", None),
        "labels": _labels(args),
    }
    common = {"type": "gcp", "region": region, **{k: v for k, v in settings.items() if v}}
    platform = getattr(args, "min_cpu_platform_agent", None)
    spot = getattr(args, "spot", False) or getattr(args, "preemptible", None) == "true"
    compute = {
        **common,
        "instance_type": _gpu_machine(args),
        "spot": bool(spot),
        "boot_disk_source_image": image or GPU_IMAGE,
        **({"base_config": {"minCpuPlatform": platform}} if platform else {}),
    }
    aux_type = getattr(args, "aux_agent_instance_type", None) or "n1-standard-4"
    aux = {
        **common,
        "boot_disk_size": _AUX_DISK_GB,
        "instance_type": {"machine_type": aux_type, "gpu_num": 0},
        "boot_disk_source_image": image or CPU_IMAGE,
    }
    return compute, aux


def _labels(args: argparse.Namespace) -> dict[str, str]:
    labels = deploy_options.pairs(getattr(args, "add_label", None), "--add-label", "KEY=VALUE")
    for key, value in labels.items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL.fullmatch(value)):
            raise UsageError(
                f"--add-label {key}={value} is not a valid Google Cloud label",
                "use at most 63 lowercase letters, digits, - and _; a key begins with a letter",
            )
    return labels


def _gpu_machine(args: argparse.Namespace) -> dict[str, Any]:
    machine_type = getattr(args, "compute_agent_instance_type", None) or "n1-standard-8"
    gpu, number = getattr(args, "gpu_type", None), getattr(args, "gpu_num", None)
    if not machine_type.startswith("n1-"):
        if gpu or number:
            raise UsageError(
                f"GPUs cannot be attached to {machine_type}: the machine type determines its GPUs",
                "leave out --gpu-type and --gpu-num, or use an n1 machine type",
            )
        return {"machine_type": machine_type}
    number = 1 if number is None else number
    return {
        "machine_type": machine_type,
        **({"gpu_type": gpu or "nvidia-tesla-t4"} if number else {}),
        "gpu_num": number,
    }
