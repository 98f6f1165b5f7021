"""A practice robot proves that it is one; everything else is a real robot."""

from __future__ import annotations

import shutil
import stat

import pytest

pytest.importorskip("bosdyn.client")

from spot_robot_helpers import POLICY, connection
from spot_sim_helpers import LocalRobot

from adc_wrappers.backends.guard import PRACTICE_LIMITS
from adc_wrappers.backends.spot import proof
from adc_wrappers.backends.spot.session import SpotSession
from adc_wrappers.backends.spot.settings import SpotRobotSettings
from adc_wrappers.cli.main import main
from adc_wrappers.core.errors import BackendError
from adc_wrappers.spot_sim import PracticeRobot, server
from adc_wrappers.spot_sim.wire import grpc


@pytest.fixture
def robot(tmp_path):
    target = LocalRobot(tmp_path, clock="lockstep")
    yield target
    target.close()


def test_the_proof_is_given(robot):
    settings = SpotRobotSettings(**connection(robot))
    assert settings.is_practice
    SpotSession(settings).close()


def asked() -> tuple[str, str]:
    raise AssertionError("credentials were asked for before the proof was given")


def test_a_robot_that_does_not_know_the_call_is_no_practice_robot(tmp_path, monkeypatch):
    """What a real one's server would answer, reached through a tunnel, with the files of a practice robot."""
    monkeypatch.setattr(
        server, "_proof_handler", lambda key: grpc.method_handlers_generic_handler(proof.SERVICE, {}), raising=True
    )
    target = LocalRobot(tmp_path, clock="lockstep")
    try:
        with pytest.raises(BackendError, match=r"does not prove .* got UNIMPLEMENTED"):
            SpotSession(SpotRobotSettings(**connection(target, credentials=asked)))
    finally:
        target.close()


def test_the_key_of_another_robot_proves_nothing(robot, tmp_path):
    proof.write_key(tmp_path, proof.make_key())
    with pytest.raises(BackendError, match=r"does not prove .* got a wrong answer"):
        SpotSession(SpotRobotSettings(**connection(robot, credentials=asked)))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"clock": "lockstep"}, "'lockstep' needs a practice robot"),
        ({"limits": "practice"}, "those of practice need a practice robot"),
        ({"limits": PRACTICE_LIMITS}, "those of practice need a practice robot"),
        ({"stiffness": None, "damping": None}, "nothing is assumed for a real robot"),
    ],
)
@pytest.mark.parametrize("hostname", ["127.0.0.1", "10.9.8.7"])
def test_without_the_key_a_robot_is_a_real_one(robot, tmp_path, more, reason, hostname):
    """The end of a tunnel with the SDK's own certificate or a copied one; a real address with a key."""
    copied = tmp_path / "elsewhere"
    copied.mkdir()
    shutil.copy(robot.certificate, copied / "ca.pem")
    certificate = copied / "ca.pem" if hostname == "127.0.0.1" else robot.certificate
    values = {"hostname": hostname, "certificate": certificate, "stiffness": 60.0, "damping": 2.0, **more}
    with pytest.raises(BackendError, match=reason):
        SpotRobotSettings(**values)


def test_yes_needs_the_key(robot, tmp_path, capsys):
    (tmp_path / proof.KEY_FILE).unlink()
    where = ["--hostname", robot.hostname, "--port", str(robot.port), "--certificate", str(robot.certificate)]
    assert main(["deploy", str(POLICY), *where, "--yes"]) == 1
    assert "--yes is for practice robots" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "zz", "abcd"])
def test_what_is_no_key_is_none(tmp_path, text):
    (tmp_path / proof.KEY_FILE).write_text(text)
    assert proof.read_key(tmp_path / "ca.pem") is None


@pytest.mark.slow
def test_the_launchers_key_is_for_its_owner_and_ends_with_the_robot(tmp_path):
    (tmp_path / proof.KEY_FILE).write_text("an old one")
    (tmp_path / proof.KEY_FILE).chmod(0o644)
    with PracticeRobot(clock="lockstep", folder=tmp_path) as robot:
        assert robot.key_file == tmp_path / proof.KEY_FILE
        assert stat.S_IMODE(robot.key_file.stat().st_mode) == 0o600
        SpotSession(SpotRobotSettings(**connection(robot))).close()
    assert not robot.key_file.exists()
