"""The robot's services on one port of the loopback interface, behind TLS."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adc_wrappers.backends.spot import proof

from .certificates import make_certificates
from .errors import PracticeRobotError
from .faults import FaultInjector
from .loops import make_loop
from .messages import streamed_state
from .robot import SimulatedSpot
from .rpc import handlers
from .services import make_services
from .settings import PracticeSettings
from .wire import grpc

__all__ = ["HOST", "PracticeServer"]

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
