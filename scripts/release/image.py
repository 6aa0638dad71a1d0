"""The image of the control plane as one file, which `docker load` and tools for OCI layouts read.

The engine builds the image from its Dockerfile. This module rewrites the last layer with fixed times, owners and order,
so that the same base image and wheels give the same bytes."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_OCI = "application/vnd.oci.image"
# The parts of an image's configuration that a container engine needs.
_CONFIG_KEYS = ("architecture", "os", "variant", "config", "rootfs")
_RUN_KEYS = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "WorkingDir", "Labels", "StopSignal")  # fmt: skip


class ImageFailed(Exception):
    """The image cannot be built."""


@dataclass(frozen=True)
class Context:
    dockerfile: bytes
    lock: bytes
    wheel: Path


@dataclass(frozen=True)
class Options:
    """The base image, and for builds without a package index more files of `dist/` and options of pip."""

    base: str = ""
    pip: str = ""
    wheels: Mapping[str, bytes] = field(default_factory=dict)
    use_cache: bool = True


def build(context: Context, path: Path, tag: str, seconds: int, options: Options) -> list[str]:
    """Build the image, write it to `path`, and return the names of the files in its last layer."""
    import docker
    from docker.errors import APIError, BuildError, DockerException

    try:
        client = docker.from_env(timeout=1200)
        files = {
            "Dockerfile": context.dockerfile,
            "requirements.lock": context.lock,
            f"dist/{context.wheel.name}": context.wheel.read_bytes(),
            **{f"dist/{name}": content for name, content in options.wheels.items()},
        }
        arguments = {"BASE": options.base} if options.base else {}
        arguments |= {"PIP_OPTIONS": options.pip} if options.pip else {}
        client.images.build(
            fileobj=_packed(files),
            custom_context=True,
            tag=tag,
            buildargs=arguments,
            rm=True,
            nocache=not options.use_cache,
        )
        with tempfile.TemporaryDirectory() as folder:
            saved = Path(folder) / "saved.tar"
            with saved.open("wb") as file:
                for chunk in client.images.get(tag).save(named=True):
                    file.write(chunk)
            return rewrite(saved, path, tag, seconds)
    except BuildError as e:
        log = "".join(str(line.get("stream", "")) for line in e.build_log)
        raise ImageFailed(f"the image cannot be built: {e}\n{log[-3000:]}") from e
    except (DockerException, APIError) as e:
        raise ImageFailed(
            f"the image needs a Docker engine: {e}; `--without image` leaves it out"
        ) from e


def _packed(files: Mapping[str, bytes]) -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed


def rewrite(saved: Path, path: Path, tag: str, seconds: int) -> list[str]:
    """Write the archive of `docker save` again, with a last layer and a configuration that can be reproduced."""
    with tarfile.open(saved) as archive:
        manifest = json.loads(_read(archive, "manifest.json"))[0]
        config = json.loads(_read(archive, manifest["Config"]))
        layers = [_read(archive, name) for name in manifest["Layers"]]
    layers[-1], names = _normal_layer(layers[-1], seconds)
    config = {key: config[key] for key in _CONFIG_KEYS if key in config}
    config["config"] = {k: v for k, v in config["config"].items() if k in _RUN_KEYS and v}
    config["rootfs"]["diff_ids"][-1] = f"sha256:{hashlib.sha256(layers[-1]).hexdigest()}"
    config["created"] = datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    _write(path, tag, json.dumps(config, sort_keys=True).encode(), layers)
    return names


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of the archive. Older engines write links between equal layers, which tarfile follows."""
    file = archive.extractfile(name)
    if file is None:
        raise ImageFailed(f"docker save wrote no {name}")
    return file.read()


def _normal_layer(layer: bytes, seconds: int) -> tuple[bytes, list[str]]:
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layer)) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in members:
                file = old.extractfile(member) if member.isreg() else None
                executable = member.isdir() or member.mode & 0o100
                member.mode = 0o777 if member.issym() else 0o755 if executable else 0o644
                member.mtime, member.pax_headers = seconds, {}
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                new.addfile(member, file)
    return packed.getvalue(), [member.name for member in members]


def _write(path: Path, tag: str, config: bytes, layers: list[bytes]) -> None:
    """Write an OCI layout that `docker load` accepts too: it reads manifest.json."""
    files: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": blob(config, "config.v1+json"),
        "layers": [blob(layer, f"layer.v1.tar{_compression(layer)}") for layer in layers],
    }
    entry = blob(json.dumps(manifest, sort_keys=True).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": tag.partition(":")[2]}
    place = "blobs/sha256/{}".format
    load = {
        "Config": place(manifest["config"]["digest"][7:]),  # type: ignore[index]
        "RepoTags": [tag],
        "Layers": [place(layer["digest"][7:]) for layer in manifest["layers"]],  # type: ignore[attr-defined]
    }
    index = {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [entry]}
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    files["index.json"] = json.dumps(index, sort_keys=True).encode()
    files["manifest.json"] = json.dumps([load], sort_keys=True).encode()
    path.write_bytes(_packed(files).getvalue())


def _compression(layer: bytes) -> str:
    return "+gzip" if layer.startswith(b"\x1f\x8b") else ""
