"""Certificates of clusters, under the names of Determined's package."""

import atexit
import os
import pathlib
import tempfile
from typing import Any, Dict, Optional, Union

from determined.common.token_store import default_path, file_lock, load_json, write_json


class Cert:
    """The certificate that a session trusts. `noverify` turns the check off; `name` is the name in the certificate."""

    def __init__(
        self, cert_pem: Optional[str] = None, noverify: bool = False, name: Optional[str] = None
    ) -> None:
        self._bundle: Union[bool, str, None] = None
        self._name = name
        if noverify:
            self._bundle = False
        elif cert_pem is not None:
            self._bundle = _temporary_file(cert_pem)

    @property
    def bundle(self) -> Union[bool, str, None]:
        """Return a file with the certificate, False if nothing is checked, or None for the machine's authorities."""
        return self._bundle

    @property
    def name(self) -> Optional[str]:
        return self._name


class CertStore:
    """The certificates that a person trusts, by the address of the cluster."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)

    def get_cert(self, url: str) -> Optional[str]:
        pem = self._load().get(url)
        return pem if isinstance(pem, str) else None

    def set_cert(self, url: str, cert_pem: str) -> None:
        self._write(url, cert_pem)

    def delete_cert(self, url: str) -> None:
        self._write(url, None)

    def _load(self) -> Dict[str, Any]:
        return load_json(self.path, "trusted certificates", "remove that file")

    def _write(self, url: str, cert_pem: Optional[str]) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with file_lock(self.path + ".lock"):
            others = {other_url: pem for other_url, pem in self._load().items() if other_url != url}
            write_json(self.path, others if cert_pem is None else {**others, url: cert_pem})


def default_store() -> pathlib.Path:
    return pathlib.Path(default_path()).parent / "certs.json"


def default_load(
    master_url: str,
    explicit_path: Optional[str] = None,
    explicit_cert_name: Optional[str] = None,
    explicit_noverify: bool = False,
) -> Cert:
    """Return the certificate of the arguments, of DET_MASTER_CERT_FILE, or of the store, in this order."""
    name = explicit_cert_name or os.environ.get("DET_MASTER_CERT_NAME") or None
    path = explicit_path or os.environ.get("DET_MASTER_CERT_FILE") or None
    if explicit_noverify or (explicit_path is None and path == "noverify"):
        return Cert(noverify=True, name=name)
    if path is not None:
        return Cert(pathlib.Path(path).read_text(), name=name)
    return Cert(CertStore(default_store()).get_cert(master_url), name=name)


def _temporary_file(text: str) -> str:
    """Write a text to a file that is deleted when the program ends."""
    handle, path = tempfile.mkstemp(suffix=".pem")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    atexit.register(pathlib.Path(path).unlink, missing_ok=True)
    return path
