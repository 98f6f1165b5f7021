"""The robot's services on one port of the loopback interface, behind TLS with certificates made for one run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from adc_wrappers.backends.spot import proof
from adc_wrappers.core.errors import MissingExtraError

from .faults import FaultInjector
from .loops import make_loop
from .messages import streamed_state
from .robot import SimulatedSpot
from .rpc import handlers
from .services import make_services
from .settings import PracticeRobotError, PracticeSettings
from .wire import grpc

__all__ = ["HOST", "Certificates", "PracticeServer", "make_certificates"]


try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID
except ImportError as error:
    raise MissingExtraError("cryptography", "spot-sim", "The practice robot") from error


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


HOST = "127.0.0.1"
"""The practice robot never listens anywhere else."""

_WORKERS = 24  # every open stream holds one for its life


class PracticeServer:
    """A running practice robot in this process.

    Args:
        settings: How it behaves.
        password: Of its user.
        port: Where to listen; 0 for any free port.
        key: With what it proves to be a practice robot; by default a new one.

    Raises:
        PracticeRobotError: The port is taken.
    """

    def __init__(self, settings: PracticeSettings, password: str, port: int = 0, key: bytes | None = None) -> None:
        self.key = proof.make_key() if key is None else key
        """What clients need to check its proof."""
        self.robot = SimulatedSpot(settings, password, streamed_state)
        self.faults = FaultInjector(self.robot)
        services = make_services(self.robot)
        names = sorted({service.authority for service in services} | {"payload-registration.spot.robot"})
        certificates = make_certificates(names)
        self.authority = certificates.authority
        """PEM of the certificate authority that clients must trust."""
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="service")
        self._server: Any = grpc.server(self._workers, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([handlers(service, self.robot) for service in services])
        self._server.add_generic_rpc_handlers([_proof_handler(self.key)])
        credentials = grpc.ssl_server_credentials([(certificates.key, certificates.certificate)])
        try:
            self.port: int = self._server.add_secure_port(f"{HOST}:{port}", credentials)
        except RuntimeError as error:
            raise PracticeRobotError(
                f"cannot listen on {HOST}:{port}: it is taken. Use port 0 for a free one."
            ) from error
        self._loop = make_loop(self.robot, self.faults)
        self._loop.start()
        self._server.start()

    def close(self) -> None:
        """Cut motor power, end every stream, stop listening, and wait for every thread."""
        self._loop.close()
        with self.robot.lock:
            self.robot.close()
        self._server.stop(0.2).wait()
        self._workers.shutdown(wait=True)


def _proof_handler(key: bytes) -> Any:
    """Return the handler of the one call that is no Spot's; it is public and in no directory."""

    def prove(challenge: bytes, context: Any) -> bytes:
        if len(challenge) != proof.CHALLENGE_BYTES:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"expected {proof.CHALLENGE_BYTES} bytes")
        return proof.answer(key, challenge)

    table = {proof.METHOD: grpc.unary_unary_rpc_method_handler(prove)}
    return grpc.method_handlers_generic_handler(proof.SERVICE, table)
