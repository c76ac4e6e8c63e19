"""The cluster's own certificate authority: who may be a node, submit, or look."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dataward.live.credentials import Credentials, Role

DAYS = 365  # a certificate is good for
AUTHORITY_DAYS = 3650
CLOCKS_APART = timedelta(hours=1)  # machines' clocks may differ by this much


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate and its key, as PEM. Whoever has the key can let anybody in."""

    certificate: str
    key: str = field(repr=False)

    @classmethod
    def found(cls, name: str) -> "Authority":
        """A new one, for a new cluster."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        draft = _draft(subject, subject, key, AUTHORITY_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(_as_pem(draft.sign(key, hashes.SHA256())), _key_as_pem(key))

    def issue(self, name: str, roles: Sequence[Role], *, days: float = DAYS) -> Credentials:
        """Credentials for somebody of this name, who may do what these roles may."""
        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        signing = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(role.value) for role in roles])
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if Role.NODE in roles:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)  # nobody else can pose as a node
        draft = (
            _draft(_named(name), authority.subject, key, days)
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        signed = draft.sign(signing, hashes.SHA256())
        return Credentials(self.certificate, _as_pem(signed), _key_as_pem(key))


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - CLOCKS_APART)
        .not_valid_after(ends)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _as_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_as_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
