"""The launcher of a practice robot: it starts one in its own process, and talks to it behind its clients' backs."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.base import RobotStart
from adc_wrappers.backends.spot.proof import make_key, write_key

from .faults import check_fault
from .settings import PracticeRobotError, PracticeSettings

__all__ = ["PASSWORD_VARIABLE", "PracticeRobot"]

PASSWORD_VARIABLE = "ADC_SPOT_SIM_PASSWORD"
"""Environment variable with the practice robot's password; without it one is generated."""

_PATIENCE = 10.0  # seconds for the process to end by itself


class PracticeRobot:
    """A Spot to practise on: its own process, on the loopback interface, with its own certificate authority.

    Example::

        with PracticeRobot(clock="lockstep") as robot:
            sdk = bosdyn.client.create_standard_sdk("me", cert_resource_glob=str(robot.certificate))
            spot = sdk.create_robot(robot.hostname)
            spot.update_secure_channel_port(robot.port)
            spot.authenticate(robot.username, robot.password)

    The process ends with :meth:`close`, and also if this one dies, because its standard input ends then.

    Args:
        port: Where to listen; 0 for any free port.
        password: Of the user ``settings.username``; default: the variable ``ADC_SPOT_SIM_PASSWORD``, or a random one.
        folder: Where the certificate authority and the key of the proof are written; default: a temporary folder,
            removed at the end.
        **settings: See :class:`PracticeSettings`.

    Raises:
        PracticeRobotError: A setting is off, the port is taken, or a package is missing.
    """

    hostname = "127.0.0.1"

    def __init__(
        self, *, port: int = 0, password: str | None = None, folder: str | Path | None = None, **settings: Any
    ) -> None:
        self.settings = PracticeSettings.make(settings)
        self.username = self.settings.username
        self.password = password or os.environ.get(PASSWORD_VARIABLE) or secrets.token_urlsafe(12)
        self._lock = threading.Lock()
        self._temporary = tempfile.TemporaryDirectory(prefix="spot-sim-") if folder is None else None
        self._process = self._start()
        key = make_key()
        try:
            order = {"settings": _plain(self.settings), "password": self.password, "port": port, "key": key.hex()}
            answer = self._ask(order)
        except PracticeRobotError:
            self.close()
            raise
        self.port: int = answer["port"]
        target = Path(self._temporary.name if self._temporary is not None else folder or ".")
        target.mkdir(parents=True, exist_ok=True)
        self.certificate = target / "ca.pem"
        """The certificate authority that a client must trust."""
        self.certificate.write_text(answer["authority"])
        self.key_file = write_key(target, key)
        """The key by which clients know this robot from a real one, beside the certificate; gone when it ends."""

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "GRPC_VERBOSITY": os.environ.get("GRPC_VERBOSITY", "ERROR")}
        environment["PYTHONPATH"] = os.pathsep.join([_root(), *filter(None, [environment.get("PYTHONPATH")])])
        return subprocess.Popen(
            [sys.executable, "-m", "adc_wrappers.spot_sim.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, encoding="utf-8", env=environment, start_new_session=True,
        )  # fmt: skip

    def _ask(self, request: dict[str, Any]) -> Any:
        """Send a line and wait for its answer."""
        with self._lock:
            process = self._process
            if process.poll() is not None or process.stdin is None or process.stdout is None or process.stdin.closed:
                raise PracticeRobotError("the practice robot has ended: start a new one.")
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise PracticeRobotError("the practice robot's process ended unexpectedly; its last words are above.")
        answer = json.loads(line)
        if "error" in answer:
            raise PracticeRobotError(answer["error"])
        return answer["result"]

    @property
    def process_id(self) -> int:
        """Number of the robot's process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the robot's process lives."""
        return self._process.poll() is None

    def inject(self, name: str, *, after: float = 0.0, **parameters: Any) -> None:
        """Make something go wrong, see :data:`FAULTS`.

        Args:
            name: Which fault.
            after: Seconds of the robot's clock until then.
            **parameters: The fault's own.

        Raises:
            PracticeRobotError: The fault or a parameter is not known.
        """
        check_fault(name, parameters)
        self._ask({"call": "inject", "name": name, "parameters": parameters, "after": after})

    def status(self) -> dict[str, Any]:
        """Return the truth: motors, mode, leases, streams, simulated time, base, joints, last command key."""
        result: dict[str, Any] = self._ask({"call": "status"})
        return result

    def history(self) -> list[dict[str, Any]]:
        """Return the last changes of mode, motors, rest and lease, oldest first.

        Each has the robot's time since its start (``time``) and this computer's monotonic clock (``wall``), s.
        """
        changes: list[dict[str, Any]] = self._ask({"call": "history"})
        return changes

    def place(self, start: RobotStart) -> None:
        """Put the simulated robot into a state; in lockstep and joint mode time stands still until the next command."""
        parts = [np.asarray(part, dtype=np.float64).tolist() for part in start]
        self._ask({"call": "place", "start": parts})

    def frame(self, width: int = 480, height: int = 360) -> NDArray[np.uint8]:
        """Return a picture of the present, RGB."""
        answer = self._ask({"call": "frame", "width": width, "height": height})
        return np.frombuffer(base64.b64decode(answer["bytes"]), dtype=np.uint8).reshape(answer["shape"])

    def start_film(self, fps: float = 12.5) -> None:
        """Film from now on; ``fps`` pictures per second of the robot's time."""
        self._ask({"call": "start_film", "fps": fps})

    def save_film(self, path: str | Path, width: int = 320, height: int = 240) -> int:
        """Write the film as a GIF and return its number of pictures."""
        target = Path(path).resolve()
        pictures: int = self._ask({"call": "save_film", "path": str(target), "width": width, "height": height})
        return pictures

    def close(self) -> None:
        """End the process and wait for it; may be called twice."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with suppress(BrokenPipeError):  # it may be gone already
                process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if hasattr(self, "key_file"):
            self.key_file.unlink(missing_ok=True)  # it is good for this robot only
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> PracticeRobot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(settings: PracticeSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def _root() -> str:
    """Return the folder from which this library was imported, for the child to do the same."""
    import adc_wrappers

    return str(Path(next(iter(adc_wrappers.__path__))).resolve().parent)
