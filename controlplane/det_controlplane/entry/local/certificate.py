"""The certificate of a local cluster: the one that was given, or one made here, which clients pin."""

import datetime
import hashlib
import ipaddress
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path

_LIFE = datetime.timedelta(days=3650)


class BadCertificate(Exception):
    """The files of a certificate cannot be used, and why."""


def check(cert: Path, key: Path) -> None:
    """Raise BadCertificate unless the files hold a certificate and its key."""
    for flag, path in (("--tls-cert", cert), ("--tls-key", key)):
        if not path.is_file():
            raise BadCertificate(f"{flag}: there is no file {path}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            cert,
            key,
            password=lambda: "",  # else OpenSSL asks at the terminal
        )
    except (OSError, ssl.SSLError) as e:
        raise BadCertificate(
            f"{cert} and {key} are no certificate with its key: {e}. Both must be PEM, the key without a password"
        ) from e


def make(cert: Path, key: Path, host: str) -> None:
    """Write a new key, and a certificate that it signs itself, with the names and addresses of this machine."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, f"determined {socket.gethostname()}"[:64])]
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    dns, addresses = names_of_this_machine(host)
    names: list[x509.GeneralName] = [x509.DNSName(n) for n in dns]
    names += [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
    usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Clients that take it as an authority trust this certificate, and none that it would sign.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=False)
        .sign(private, hashes.SHA256())
    )
    form, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    cert.parent.mkdir(mode=0o700, exist_ok=True)
    _write(key, private.private_bytes(form, serialization.PrivateFormat.PKCS8, plain), 0o600)
    _write(cert, certificate.public_bytes(form), 0o644)


def names_of_this_machine(host: str) -> tuple[list[str], list[str]]:
    """Return the names and the addresses by which clients may reach this machine."""
    names, addresses = {"localhost", socket.gethostname(), socket.getfqdn()}, {"127.0.0.1", "::1"}
    with suppress(OSError):
        entries = socket.getaddrinfo(socket.gethostname(), None)
        addresses.update(str(entry[4][0]).partition("%")[0] for entry in entries)
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Find the address that this machine uses to reach other machines. No packet is sent.
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            addresses.add(str(probe.getsockname()[0]))
    if host not in ("", "0.0.0.0", "::"):
        (addresses if _is_address(host) else names).add(host)
    return sorted(n for n in names if n.isascii() and not _is_address(n)), sorted(addresses)


def best_name(host: str) -> str:
    """Return the name by which other machines reach this one."""
    if host not in ("", "0.0.0.0", "::"):
        return host
    names, addresses = names_of_this_machine(host)
    outside = [a for a in addresses if not ipaddress.ip_address(a).is_loopback]
    qualified = [n for n in names if "." in n and not n.startswith("localhost")]
    return (qualified or outside or [socket.gethostname()])[0]


def first_name(cert: Path) -> str:
    """Return the first DNS name of a certificate, or "" if it has none."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(cert.read_bytes())
    with suppress(x509.ExtensionNotFound):
        extension = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
        names = [n for n in extension.get_values_for_type(x509.DNSName) if not n.startswith("*")]
        return names[0] if names else ""
    return ""


def fingerprint(cert: Path) -> str:
    """Return the SHA-256 fingerprint of the first certificate in a file."""
    end = "-----END CERTIFICATE-----"
    pem = cert.read_text("ascii", "ignore").partition(end)[0] + end
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE-----") :])
    return hashlib.sha256(der).digest().hex(":")


def trusting(cert: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts this certificate alone, under any name of this machine."""
    context = ssl.create_default_context(cafile=str(cert))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _write(path: Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
