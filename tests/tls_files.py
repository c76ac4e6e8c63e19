"""Certificates in files, for a server of this machine and for whoever connects to it."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(directory: Path, address: str = "127.0.0.1") -> dict[str, Path]:
    """The paths of a new authority's certificate (ca), and of a cert for an address and its key."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _draft("authority", "authority", authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    server = _draft("server", "authority", key).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    contents = {
        "ca": authority.sign(authority_key, hashes.SHA256()).public_bytes(pem),
        "cert": server.sign(authority_key, hashes.SHA256()).public_bytes(pem),
        "key": key.private_bytes(pem, *plain),
    }
    directory.mkdir(exist_ok=True)
    paths = {name: directory / f"{name}.pem" for name in contents}
    for name, content in contents.items():
        paths[name].write_bytes(content)
    return paths


def _draft(name: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    subject, by = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
