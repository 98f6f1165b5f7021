"""A puppet or a whole playback in the browser, with viser: no screen is needed where it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.backends.spot_model import ShapeSpec
from adc_wrappers.core.errors import BackendError, MissingExtraError

from .playback import Playback
from .puppets import FollowingCamera, LinkPose, Puppet, shape_quaternion

__all__ = ["BrowserView", "PuppetPage"]

_LOOPBACK = "127.0.0.1"
_STATUS_EVERY = 10  # steps


class PuppetPage:
    """A page, on this computer alone, that shows a puppet.

    To look from elsewhere, forward the port: ``ssh -L 8080:127.0.0.1:8080 HOST``.

    Args:
        puppet: What is drawn.
        port: Port of the page; the next free one if it is taken.
        title: Name of the page.

    Raises:
        MissingExtraError: viser is not installed.
        BackendError: No port could be opened.
    """

    def __init__(self, puppet: Puppet, *, port: int = 8080, title: str = "adc") -> None:
        try:
            import viser
        except ImportError as error:
            raise MissingExtraError("viser", "view", "The live view in the browser") from error
        if not 0 < port < 65536:
            raise BackendError(f"port: expected 1 to 65535, got {port}.")
        self._puppet = puppet
        try:
            self.server: Any = viser.ViserServer(host=_LOOPBACK, port=port, label=title, verbose=False)
        except OSError as error:
            raise BackendError(f"cannot serve on port {port}: {error}. Choose another with --port.") from error
        self.frames: dict[str, Any] = {}
        """The scene's frames by link."""
        self.following = True
        """Whether the cameras of those who look go with what moves."""
        self._camera = FollowingCamera()
        self._build_scene()

    @property
    def address(self) -> str:
        """What to type into the browser."""
        return f"http://{_LOOPBACK}:{self.server.get_port()}"

    def draw(self) -> None:
        """Bring the page up to date."""
        poses = self._puppet.poses()
        with self.server.atomic():
            for link, pose in poses.items():
                self.frames[link].position = pose.position
                self.frames[link].wxyz = pose.quaternion
        self._follow(poses)

    def _follow(self, poses: dict[str, LinkPose]) -> None:
        if not self.following or self._puppet.moving not in poses:
            return
        shift = self._camera.shift(poses[self._puppet.moving].position)
        if shift is None:
            return
        for client in self.server.get_clients().values():
            if client.camera.update_timestamp != 0.0:  # it has said where it is
                client.camera.position = client.camera.position + shift

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def _build_scene(self) -> None:
        scene = self.server.scene
        scene.set_up_direction("+z")
        scene.world_axes.visible = False
        self.server.initial_camera.position, self.server.initial_camera.look_at = self._puppet.camera
        scene.add_grid(
            "/ground", width=20.0, height=20.0, cell_size=0.25, section_size=1.0, cell_color=(205, 210, 214),
            section_color=(165, 172, 178), plane_color=(226, 230, 233), plane_opacity=1.0, shadow_opacity=0.3,
        )  # fmt: skip
        for link, shapes in self._puppet.shapes.items():
            self.frames[link] = scene.add_frame(f"/robot/{link}", show_axes=False)
            for index, shape in enumerate(shapes):
                vertices, faces = _mesh(shape)
                scene.add_mesh_simple(
                    f"/robot/{link}/{index}", vertices, faces, color=shape.color, flat_shading=shape.kind == "box",
                    wxyz=shape_quaternion(shape), position=np.array(shape.position),
                )  # fmt: skip


class BrowserView(PuppetPage):
    """A page that shows a playback and offers pause, reset, push and K.

    Args:
        playback: What is shown.
        puppet: How it is drawn.
        port: Port of the page; the next free one if it is taken.
        title: Shown above the controls.

    Raises:
        MissingExtraError: viser is not installed.
        BackendError: No port could be opened.
    """

    def __init__(self, playback: Playback, puppet: Puppet, *, port: int = 8080, title: str = "adc") -> None:
        super().__init__(puppet, port=port, title=title)
        self._playback = playback
        self._clock = 0
        self._build_controls(title)
        self.draw()

    def draw(self) -> None:
        """Bring the page up to date."""
        super().draw()
        if self._clock % _STATUS_EVERY == 0:
            self._status.content = self._status_text()
        self._clock += 1

    def _build_controls(self, title: str) -> None:
        gui, playback = self.server.gui, self._playback
        gui.configure_theme(show_logo=False, show_share_button=False)
        gui.add_markdown(f"**{title}**")
        self._status: Any = gui.add_markdown(self._status_text())
        pause = gui.add_checkbox("pause", initial_value=False)
        pause.on_update(lambda _: setattr(playback, "paused", bool(pause.value)))
        if self._puppet.moving is not None:
            follow = gui.add_checkbox("follow", initial_value=True)
            follow.on_update(lambda _: setattr(self, "following", bool(follow.value)))
        gui.add_button("reset").on_click(lambda _: playback.request_reset())
        if playback.can_push:
            gui.add_button("push").on_click(lambda _: playback.request_push())
        start = playback.status.stiffness
        slider = gui.add_slider("stiffness K", min=start / 4, max=start * 4, step=start / 100, initial_value=start)
        slider.on_update(lambda _: playback.request_stiffness(float(slider.value)))

    def _status_text(self) -> str:
        status = self._playback.status
        return (
            f"episode {status.episode}, step {status.step}  \nreturn {status.total_reward:.2f}, "
            f"K = {status.stiffness:.4g}  \nlast episode: {status.last_outcome}"
        )


def _mesh(shape: ShapeSpec) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return vertices and faces of a shape, centred; viser brings trimesh."""
    import trimesh.creation

    if shape.kind == "box":
        mesh = trimesh.creation.box(extents=shape.size)
    elif shape.kind == "sphere":
        mesh = trimesh.creation.icosphere(subdivisions=3, radius=shape.size[0])
    elif shape.kind == "capsule":
        mesh = trimesh.creation.capsule(radius=shape.size[0], height=shape.size[1], count=[20, 20])
    else:
        mesh = trimesh.creation.cylinder(radius=shape.size[0], height=shape.size[1], sections=32)
    vertices = np.asarray(mesh.vertices) - mesh.bounds.mean(axis=0)
    return vertices, np.asarray(mesh.faces)
