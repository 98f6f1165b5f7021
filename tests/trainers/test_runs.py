"""Run folders: checkpoints under faults, metrics, evaluation, recordings."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adc_wrappers import ActuatorCurriculumWrapper, CurriculumConfig, make_env
from adc_wrappers.core.files import write_atomically
from adc_wrappers.runs import (
    CheckpointError,
    CheckpointStore,
    MetricsFile,
    RunFolder,
    RunFolderError,
    evaluate,
    wilson_interval,
)
from adc_wrappers.runs.recording import record_episode

FILES = {"state.json": b'{"a": 1}', "weights.pt": bytes(range(256)) * 20}


def test_the_newest_checkpoint_is_loaded_and_old_ones_go(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (10, 20, 30):
        store.save(step, {**FILES, "state.json": json.dumps({"step": step}).encode()})
    assert [path.name for path in store.paths()] == ["step_000000000020.ckpt", "step_000000000030.ckpt"]
    checkpoint = store.load_latest()
    assert checkpoint.step == 30 and checkpoint.json("state.json") == {"step": 30}
    assert checkpoint.files["weights.pt"] == FILES["weights.pt"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 0.999))
def test_a_truncated_checkpoint_is_refused_and_the_one_before_is_used(tmp_path, share):
    store = CheckpointStore(tmp_path)
    store.save(1, FILES)
    newest = store.save(2, FILES)
    content = newest.read_bytes()
    newest.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        store.load(newest)
    with pytest.warns(UserWarning, match="Using the one before"):
        assert store.load_latest().step == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(40, 4000), change=st.integers(1, 255))
def test_a_flipped_byte_is_found_or_harmless(tmp_path, position, change):
    """Zip headers hold some bytes that nobody reads; what is loaded is what was saved, or it is refused."""
    store = CheckpointStore(tmp_path)
    path = store.save(5, FILES)
    content = bytearray(path.read_bytes())
    content[position] ^= change
    path.write_bytes(bytes(content))
    try:
        loaded = store.load(path)
    except CheckpointError:
        return
    assert loaded.files == FILES and not 500 < position < 3500  # the weights lie there


def test_no_checkpoint_a_foreign_one_and_too_few_kept(tmp_path):
    store = CheckpointStore(tmp_path)
    with pytest.raises(CheckpointError, match="no whole checkpoint"):
        store.load_latest()
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        store.load(tmp_path / "step_000000000001.ckpt")
    import zipfile

    with zipfile.ZipFile(tmp_path / "step_000000000009.ckpt", "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": "other", "version": 3, "sha256": {}}))
    with pytest.raises(CheckpointError, match="expected adc-checkpoint version 1, got 'other'"):
        store.load(tmp_path / "step_000000000009.ckpt")
    with pytest.raises(ValueError, match="at least 2"):
        CheckpointStore(tmp_path, keep=1)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_metrics_drop_what_will_be_written_again_and_a_line_that_was_cut_off(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for i in range(1, 6):
        metrics.append({"iteration": i, "stiffness": 60.0 - i / 3, "episode_length_mean": float("nan")})
    with metrics.path.open("a") as file:
        file.write("6,12.")
    assert metrics.read()["iteration"] == [1, 2, 3, 4, 5]
    metrics.keep_until(3)
    again = MetricsFile(metrics.path)
    again.append({"iteration": 4, "stiffness": 1.0, "episode_length_mean": 2.0})
    assert again.read()["iteration"] == [1, 2, 3, 4]
    assert again.read()["stiffness"][2] == 59.0
    with pytest.raises(ValueError, match="expected the columns"):
        again.append({"iteration": 5})
    newer = {"iteration": 5, "stiffness": 0.5, "episode_length_mean": 3.0, "strictness": 1.0}
    again.append(newer)  # by a version with another column
    assert again.read()["iteration"] == [1, 2, 3, 4, 5] and "strictness" not in again.read()
    assert MetricsFile(tmp_path / "none.csv").read() == {}


def test_run_folders_are_not_overwritten_unless_told(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"task": "cartpole"})
    assert RunFolder.open(folder.path).config() == {"task": "cartpole"}
    assert "numpy" in json.loads((folder.path / "versions.json").read_text())
    with pytest.raises(RunFolderError, match="--resume"):
        RunFolder.create(folder.path, {})
    RunFolder.create(folder.path, {"task": "other"}, overwrite=True)
    assert RunFolder.open(folder.path).config() == {"task": "other"}
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="not a run folder"):
        RunFolder.create(precious, {}, overwrite=True)
    assert (precious / "thesis.tex").exists()
    with pytest.raises(RunFolderError, match=r"no config\.json"):
        RunFolder.open(precious)


def test_wilson_interval_against_known_values():
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-3)
    assert wilson_interval(98, 100) == pytest.approx((0.9300, 0.9945), abs=1e-3)
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(3, 2)


def lean_back(observation):
    """A hand-made balancer that works at stiff gains better than at soft ones."""
    return (1.5 * observation[:, 2:3] + 0.35 * observation[:, 3:4] - 0.1 * observation[:, :1]).astype(np.float32)


def test_evaluation_is_at_the_target_with_a_fixed_share_per_env():
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=16.0)
    envs = make_env("cartpole", backend="analytic", num_envs=4, time_limit=80)
    result = evaluate(lean_back, envs, config, episodes=10, seed=0)
    assert result.stiffness == (16.0,)
    np.testing.assert_allclose(envs.actuator_backend.gains().stiffness, 16.0)
    assert len(result.lengths) == len(result.returns) == len(result.successes) == 10
    again = evaluate(lean_back, envs, config, episodes=10, seed=0)
    np.testing.assert_array_equal(again.returns, result.returns)
    falling = evaluate(lambda o: np.ones((4, 1), np.float32), envs, config, episodes=5, seed=0)
    assert falling.successes.sum() == 0 and falling.lengths.max() < 80
    assert falling.summary()["success_95"][1] < 0.5
    with pytest.raises(ValueError, match="episodes"):
        evaluate(lean_back, envs, config, episodes=0, seed=0)


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_recordings_are_films_of_the_episode(tmp_path, ending):
    import imageio.v2 as imageio

    env = make_env("cartpole", backend="analytic", render_mode="rgb_array", time_limit=40)
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=16.0)
    path = tmp_path / f"film.{ending}"
    length, _ = record_episode(lean_back, env, config, path, seed=0)
    frames = imageio.mimread(path)
    assert length == 40
    assert len(frames) == (20 if ending == "gif" else 40)
    assert np.abs(frames[0].astype(int) - frames[-1].astype(int)).max() > 50
    with pytest.raises(ValueError, match=r"ends in \.gif or \.mp4"):
        record_episode(lean_back, env, config, tmp_path / "film.avi", seed=0)


def test_recordings_can_be_made_smaller(tmp_path):
    import imageio.v2 as imageio

    env = make_env("cartpole", backend="analytic", render_mode="rgb_array", time_limit=40)
    config = CurriculumConfig(start_stiffness=36.0, target_stiffness=16.0)
    path = tmp_path / "film.gif"
    record_episode(lean_back, env, config, path, seed=0, width=100, fps=10)
    frames = imageio.mimread(path)
    assert len(frames) == 8 and frames[0].shape[1] == 100
    for change in ({"width": 0}, {"fps": 0.0}):
        with pytest.raises(ValueError, match="positive width and fps"):
            record_episode(lean_back, env, config, path, seed=0, **change)


def test_gymnasium_s_recorder_films_a_wrapped_env_at_the_target_gains(tmp_path):
    """With moviepy, of the extra ``video``."""
    import imageio.v2 as imageio
    from gymnasium.wrappers import RecordVideo

    env = make_env("cartpole", backend="analytic", render_mode="rgb_array", time_limit=20)
    wrapped = ActuatorCurriculumWrapper(env, iteration_steps=2048)
    with RecordVideo(wrapped, str(tmp_path / "films")) as recorder, wrapped.evaluation():
        recorder.reset(seed=0)
        ends = [recorder.step(np.full(1, -1.0, np.float32))[3] for _ in range(20)]
    (path,) = tmp_path.glob("films/*.mp4")
    frames = imageio.mimread(path)
    assert ends[-1] and len(frames) == 21  # the start, and one after each step
    assert np.abs(frames[0].astype(int) - frames[-1].astype(int)).max() > 50
