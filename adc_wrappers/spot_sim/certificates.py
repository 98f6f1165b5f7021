"""A certificate authority for one run, and the certificate of one robot."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from adc_wrappers.core.errors import MissingExtraError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID
except ImportError as error:
    raise MissingExtraError("cryptography", "spot-sim", "The practice robot") from error

__all__ = ["Certificates", "make_certificates"]

_VALID = datetime.timedelta(days=2)
_MARGIN = datetime.timedelta(hours=1)  # computers whose clocks disagree


class Certificates(NamedTuple):
    """PEM texts."""

    authority: bytes
    """What a client must trust; the authority's key is not kept."""

    certificate: bytes
    key: bytes


def make_certificates(names: Sequence[str]) -> Certificates:
    """Return a new authority and a certificate signed by it for the names under which services are addressed."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("adc practice robot authority")
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name("adc practice robot"), authority_name, key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    return Certificates(
        authority.public_bytes(serialization.Encoding.PEM),
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _MARGIN)
        .not_valid_after(now + _VALID)
    )
