"""Certificates and devices that show them, for tests that take an hour at most."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from rase.device.folder import DeviceFolder
from rase.wire.signed import PinnedKeys

__all__ = ["Authority", "device_folder", "pem_of"]

Key = ec.EllipticCurvePrivateKey


class Authority:
    """An authority that lives as long as a test.

    Args:
        folder: Where its files go.
        name: Its name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = self._certificate(name, self._key, self._name, is_ca=True)

    def issue(self, name: str, *, days: int = 0) -> tuple[Path, Path]:
        """Return the files of a certificate for this machine and of its key.

        Args:
            name: Of both, and of who is certified.
            days: In how many days it holds for an hour; in the past, it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._certificate(name, key, subject, is_ca=False, days=days)
        key_file = self._folder / f"{name}.key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(pem_of(key, serialization.NoEncryption()))
        return certificate, key_file

    def _certificate(
        self, name: str, key: Key, subject: x509.Name, *, is_ca: bool, days: int = 0
    ) -> Path:
        now = datetime.now(UTC) + timedelta(days)  # noqa: TID251 - a true certificate has true times
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]),
                critical=False,
            )
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .sign(self._key, SHA256())
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def revoking(self, certificate: Path) -> Path:
        """Return the file of a list that takes one of its certificates back."""
        now = datetime.now(UTC)  # noqa: TID251 - a true list has true times
        number = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now)
        found = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - timedelta(hours=1))
            .next_update(now + timedelta(hours=1))
            .add_revoked_certificate(revoked.build())
            .sign(self._key, SHA256())
        )
        path = self._folder / "crl.pem"
        path.write_bytes(found.public_bytes(serialization.Encoding.PEM))
        return path


def pem_of(key: Key, encryption: serialization.KeySerializationEncryption) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


def device_folder(
    path: Path, *, url: str, pinned: PinnedKeys, tls: Mapping[str, Path]
) -> DeviceFolder:
    """Make the folder of a device with these settings."""
    folder = DeviceFolder(path)
    folder.make()
    lines = [f'{name} = "{file}"' for name, file in tls.items()]
    folder.settings_file.write_text(
        "\n".join(
            [
                "[device]",
                f'shuffler = "{url}"',
                'campaign = "power"',
                f'fusion_key = "{pinned.fusion.hex()}"',
                f'shuffler_key = "{pinned.shuffler.hex()}"',
                f'registrar = "{url}"',
                f'registrar_key = "{pinned.registrar.hex()}"',
                "timeout_s = 10",
                *lines,
                "[owner]",
                "report_epsilon = 1",
                "span_epsilon = 24",
                "total_epsilon = 100",
                "[source]",
                'kind = "stdin"',
            ]
        )
    )
    return folder
