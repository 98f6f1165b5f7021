"""The live view's two screens: the page in the browser, and MuJoCo's window."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
from view_helpers import free_port, playback_of

from adc_wrappers import make_env
from adc_wrappers.backends.spot_model import LINK_NAMES
from adc_wrappers.core.errors import BackendError, MissingExtraError
from adc_wrappers.viewing import BrowserView, MujocoScreen, puppet_of

# --- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def page(spot):
    playback = playback_of(spot, "random", stiffness=60.0)
    view = BrowserView(playback, puppet_of(spot.task), port=free_port(), title="test")
    yield playback, view
    view.close()


def test_the_page_is_served_on_loopback_only(page):
    _, view = page
    assert view.address.startswith("http://127.0.0.1:")
    assert view.server.get_host() == "127.0.0.1"
    with urllib.request.urlopen(view.address, timeout=10) as answer:
        assert answer.status == 200 and b"<html" in answer.read()


def test_the_links_are_in_the_scene_and_move_with_the_robot(page, spot):
    playback, view = page
    assert set(view.frames) == set(LINK_NAMES)
    before = {name: np.array(frame.position) for name, frame in view.frames.items()}
    for _ in range(10):
        playback.advance()
    view.draw()
    moved = [name for name, frame in view.frames.items() if np.linalg.norm(frame.position - before[name]) > 1e-3]
    assert set(moved) == set(LINK_NAMES)
    np.testing.assert_allclose(view.frames["body"].position, spot.task.backend.state().base_position[0], atol=1e-6)


def test_a_client_receives_the_links_and_their_motion(page):
    """What a browser gets over its websocket: names of the links, then new poses."""
    playback, view = page
    received = Client(view.address)
    assert received.wait_for(lambda text: all(f"/robot/{link}".encode() in text for link in LINK_NAMES))
    size = received.size
    for _ in range(5):
        playback.advance()
        view.draw()
    assert received.wait_for(lambda _: received.size > size)
    received.close()


class Client:
    """A websocket client that collects what a viser server sends, unpacked."""

    def __init__(self, address):
        import viser
        import zstandard
        from websockets.sync.client import connect

        self._unpack = zstandard.ZstdDecompressor().decompressobj
        protocol = f"viser-v{viser.__version__}"
        self._socket = connect(address.replace("http", "ws"), subprotocols=[protocol], max_size=None, proxy=None)
        self._text = b""
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    @property
    def size(self):
        return len(self._text)

    def _collect(self):
        for message in self._socket:
            self._text += message + self._open(message)

    def _open(self, message):
        start = message.find(b"\x28\xb5\x2f\xfd")  # a zstandard frame
        return self._unpack().decompress(message[start:]) if start >= 0 else b""

    def wait_for(self, condition, seconds=60.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition(self._text):
                return True
            time.sleep(0.05)
        return False

    def close(self):
        self._socket.close()
        self._thread.join(5.0)


def test_a_closed_page_frees_its_port(spot):
    view = BrowserView(playback_of(spot), puppet_of(spot.task), port=free_port())
    port = view.server.get_port()
    view.close()
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.05)
    pytest.fail("the port still answers")


def test_a_port_that_is_none_is_refused(spot):
    with pytest.raises(BackendError, match="port: expected 1 to 65535, got 70000"):
        BrowserView(playback_of(spot), puppet_of(spot.task), port=70000)


def test_without_viser_the_error_names_the_extra(spot, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[view\]"):
        BrowserView(playback_of(spot), puppet_of(spot.task), port=free_port())


# --- MuJoCo's window -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a screen")
def test_without_a_screen_the_window_says_what_to_do(spot, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(BackendError, match=r"no screen here.*--viewer browser"):
        MujocoScreen(spot.task)


def test_the_window_shows_spot_only():
    env = make_env("cartpole", backend="analytic")
    with pytest.raises(BackendError, match="shows Spot, not CartTask"):
        MujocoScreen(env.task)


def view_in_a_window(display):
    command = [sys.executable, "-m", "adc_wrappers.cli", "view", "spot-handstand", "--viewer", "mujoco"]
    environment = {**os.environ, "DISPLAY": display, "MUJOCO_GL": "glfw"}
    return subprocess.run(
        [*command, "--seconds", "0.5"], capture_output=True, text=True, timeout=120, env=environment, check=False
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11")
def test_a_screen_that_does_not_answer_is_said():
    answer = view_in_a_window(":4321")
    assert answer.returncode == 1
    assert "no window can be opened on the screen ':4321'" in answer.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb, a virtual screen")
def test_the_window_opens_shows_and_closes():
    screen = subprocess.Popen(
        ["Xvfb", "-displayfd", "1", "-screen", "0", "800x600x24"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert screen.stdout is not None
        answer = view_in_a_window(f":{int(screen.stdout.readline())}")
    finally:
        screen.terminate()
        screen.wait(10)
    assert answer.returncode == 0, answer.stderr
    assert "showing spot-handstand" in answer.stdout
