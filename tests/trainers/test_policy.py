"""Policy files: what they say, what is refused, what is computed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_helpers import WEIGHTS, describe, make_metadata, make_model

from adc_wrappers.core.errors import CurriculumError, install_command
from adc_wrappers.envs import ObservationPart
from adc_wrappers.policy import (
    Policy,
    PolicyFileError,
    PolicyMetadata,
    PolicyOutputError,
    TrainingRecord,
    load,
)

NUMBERS = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-6, 1e6)
NAMES = st.text(min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def metadata(draw):
    joints = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))

    def per_joint(numbers):
        return tuple(draw(st.lists(numbers, min_size=len(joints), max_size=len(joints))))

    parts = draw(
        st.lists(
            st.builds(
                ObservationPart,
                name=NAMES,
                size=st.integers(1, 4),
                unit=st.text(max_size=3),
                meaning=st.text(max_size=9),
            ),
            min_size=1,
            max_size=3,
        )
    )
    size = sum(part.size for part in parts)
    known = draw(st.booleans())
    scaled = draw(st.booleans())
    return PolicyMetadata(
        joint_names=tuple(joints),
        nominal_pose=per_joint(NUMBERS),
        action_scale=per_joint(POSITIVE),
        action_limit=draw(POSITIVE),
        policy_step=draw(POSITIVE),
        physics_step=draw(POSITIVE),
        observation=tuple(parts),
        simulated_stiffness=per_joint(POSITIVE),
        simulated_damping=per_joint(POSITIVE),
        commanded_stiffness=per_joint(POSITIVE) if known else None,
        commanded_damping=per_joint(POSITIVE) if known else None,
        observation_scale=tuple(draw(st.lists(NUMBERS, min_size=size, max_size=size))) if scaled else None,
        curriculum=draw(st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
        training=TrainingRecord(
            config=draw(st.none() | st.dictionaries(st.text(max_size=5), JSON, max_size=3)),
            steps=draw(st.integers(0, 10**12)),
            commit=draw(st.none() | NAMES),
        ),
        library_version=draw(NAMES),
        network_sha256=draw(st.text("0123456789abcdef", max_size=64)),
    )


@given(metadata())
def test_metadata_survives_the_file(values):
    assert PolicyMetadata.from_json(values.to_json()) == values


DOCUMENT = json.loads(make_metadata().to_json())


@pytest.mark.parametrize("key", [key for key in DOCUMENT if key not in ("format", "version")])
def test_each_missing_key_is_named(key):
    text = json.dumps({name: value for name, value in DOCUMENT.items() if name != key})
    with pytest.raises(PolicyFileError, match=f"lacks {key}"):
        PolicyMetadata.from_json(text)


@pytest.mark.parametrize("key", ["config", "steps", "commit"])
def test_each_missing_key_inside_is_named(key):
    training = {name: value for name, value in DOCUMENT["training"].items() if name != key}
    with pytest.raises(PolicyFileError, match=f"lacks training.{key}"):
        PolicyMetadata.from_json(json.dumps({**DOCUMENT, "training": training}))


def test_several_missing_keys_are_all_named():
    text = json.dumps({name: value for name, value in DOCUMENT.items() if name not in ("joint_names", "policy_step")})
    with pytest.raises(PolicyFileError, match="lacks joint_names, policy_step"):
        PolicyMetadata.from_json(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "expected a policy file of format 'adc-policy' version 1, got 'other'"),
        ({"version": 2}, "got 'adc-policy' version 2"),
        ({"surprise": 1}, "has unknown surprise"),
        ({"joint_names": ["hip"]}, "nominal_pose: expected 1 numbers"),
        ({"joint_names": ["hip", "hip"]}, "each once"),
        ({"joint_names": "hip"}, "joint_names: expected a list"),
        ({"nominal_pose": [0.0, "1"]}, r"nominal_pose\[1\]: expected a number"),
        ({"simulated_stiffness": [40.0, -1.0]}, "simulated_stiffness: expected positive"),
        ({"simulated_damping": [1.0, -1.0]}, "simulated_damping: expected positive"),
        ({"commanded_stiffness": [60.0, 60.0]}, "or neither"),
        ({"action_limit": 0}, "action_limit: expected a positive number"),
        ({"policy_step": True}, "policy_step: expected a number"),
        ({"observation": []}, "at least one part"),
        ({"observation": [{"name": "x", "size": 1}]}, r"lacks observation\[0\].meaning, observation\[0\].unit"),
        ({"observation_scale": [1.0]}, "expected 3 factors"),
        ({"training": {"config": None, "steps": -1, "commit": None}}, "training.steps"),
        ({"curriculum": None}, "curriculum: expected an object"),
        ({"library_version": 1}, "library_version: expected a text"),
    ],
)
def test_a_wrong_value_is_named(changes, message):
    with pytest.raises(PolicyFileError, match=message):
        PolicyMetadata.from_json(json.dumps({**DOCUMENT, **changes}))


def test_a_number_that_is_none_is_refused():
    text = json.dumps({**DOCUMENT, "action_limit": float("nan")})
    with pytest.raises(PolicyFileError, match="NaN is no number"):
        PolicyMetadata.from_json(text)


def test_one_commanded_gain_without_the_other_is_refused():
    with pytest.raises(CurriculumError, match="or neither"):
        make_metadata(commanded_damping=(1.0, 1.0))


# --- running ---------------------------------------------------------------------------------------------------------

GOOD = describe(make_model())


def test_one_observation_and_a_batch_give_the_same_actions():
    policy = Policy(GOOD)
    batch = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    actions = policy(batch)
    np.testing.assert_allclose(actions, np.clip(batch @ WEIGHTS, -1, 1), atol=1e-6)
    assert actions.dtype == np.float32
    for observation, action in zip(batch, actions, strict=True):
        np.testing.assert_allclose(policy(observation), action, atol=1e-6)
    assert policy(batch.astype(np.float64).tolist()).shape == (5, 2)
    assert policy(batch[:0]).shape == (0, 2)


def test_targets_are_the_pose_plus_the_scaled_clipped_action():
    policy = Policy(GOOD)
    np.testing.assert_allclose(policy.targets([0.5, -9.0]), [0.1 + 0.45, -1.5 - 0.5])
    assert policy.targets(np.zeros((4, 2))).shape == (4, 2)
    for wrong in ([0.5], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="action: expected 2 finite numbers"):
            policy.targets(wrong)


def test_what_the_file_says_is_typed():
    policy = Policy(GOOD, threads=2)
    assert policy.joint_names == ("hip", "knee") and policy.steps == 7
    assert policy.metadata.simulated_stiffness == (40.0, 40.0) and policy.metadata.commanded_stiffness is None
    assert policy.metadata.policy_rate == pytest.approx(50.0) and policy.metadata.observation_size == 3
    assert policy.curriculum == {"progress": 1.0}
    with pytest.raises(PolicyFileError, match="without the settings of a training run"):
        _ = policy.config


@pytest.mark.parametrize("shape", [(2,), (4, 2), (1, 1, 3), ()])
def test_observations_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"expected the shape \(3,\) or \(n, 3\)"):
        Policy(GOOD)(np.zeros(shape))


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(PolicyOutputError, match="observation is not all finite"):
        Policy(GOOD)([0.0, np.nan, 0.0])
    unclipped = make_model()
    unclipped.graph.node[1].op_type = "Identity"
    del unclipped.graph.node[1].input[1:]
    policy = Policy(describe(unclipped))
    with pytest.raises(PolicyOutputError, match="answer is not all finite"):
        policy(np.full(3, 3e38, dtype=np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "without; is it cut off"),
        (b"no onnx at all", "cannot be read"),
        (b"PK\x03\x04" + bytes(64), "expected an ONNX file"),
        (make_model().SerializeToString(), "does not say which joints"),
        (describe(make_model(), "{}"), "got None version None"),
        (describe(make_model(), "[1]"), "expected a JSON object"),
        (describe(make_model(), "{"), "not JSON"),
        (describe(make_model(np.full((3, 2), np.nan))), "weights 'weights' are not all finite"),
        (describe(make_model(np.full((3, 2), np.inf))), "weights 'weights' are not all finite"),
        (describe(make_model(np.ones((4, 2)), inputs=4)), r"input of shape \(n, 3\) .* has \(n, 4\)"),
        (describe(make_model(np.ones((3, 5)))), r"output of shape \(n, 2\) .* has \(n, 5\)"),
        (describe(make_model(batch=1)), r"has \(1, 3\)"),
        (describe(make_model(kind=onnx.TensorProto.DOUBLE)), "in double"),
        (describe(make_model(), network_sha256="0" * 64), "not the one that was exported"),
    ],
)
def test_files_that_are_not_policies_are_refused(tmp_path, content, message):
    file = tmp_path / "policy.onnx"
    file.write_bytes(content)
    with pytest.raises(PolicyFileError, match=message) as refused:
        load(file)
    assert str(file) in str(refused.value)


def test_a_missing_file_and_no_threads_are_refused(tmp_path):
    with pytest.raises(PolicyFileError, match="cannot be read"):
        load(tmp_path / "nothing.onnx")
    with pytest.raises(ValueError, match="threads: expected at least 1"):
        Policy(GOOD, threads=0)


@given(st.integers(0, len(GOOD) - 1))
@settings(max_examples=300, deadline=None)
def test_a_file_that_is_cut_off_anywhere_is_refused(length):
    with pytest.raises(PolicyFileError):
        Policy(GOOD[:length])


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_a_damaged_byte_is_refused_or_changes_nothing_that_counts(position, flip):
    damaged = bytearray(GOOD)
    damaged[position] ^= flip
    try:
        policy = Policy(bytes(damaged))
    except PolicyFileError:
        return
    whole = Policy(GOOD)
    assert policy.metadata == whole.metadata
    observation = np.linspace(-0.3, 0.3, 9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(policy(observation), whole(observation))


def test_weights_in_another_file_are_not_looked_for(tmp_path):
    model = make_model()
    secret = tmp_path / "weights.bin"
    secret.write_bytes(WEIGHTS.tobytes())
    tensor = model.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, str(secret))
    tensor.ClearField("raw_data")
    with pytest.raises(PolicyFileError, match="kept in another file"):
        Policy(describe(model, make_metadata().to_json()))


def test_two_inputs_and_unknown_operators_are_refused():
    model = make_model()
    model.graph.input.append(onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ["n", 3]))
    with pytest.raises(PolicyFileError, match="one input, got 2"):
        Policy(describe(model))
    model = make_model()
    model.graph.node[0].op_type = "Telepathy"
    with pytest.raises(PolicyFileError, match="Telepathy"):
        Policy(describe(model))


def test_operators_of_others_are_refused():
    model = make_model()
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(PolicyFileError, match=r"standard ONNX operators only, got others too: com\.microsoft"):
        Policy(describe(model))
    model = make_model()
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    model.functions.append(onnx.helper.make_function("", "Own", ["x"], ["y"], [node], model.opset_import))
    with pytest.raises(PolicyFileError, match="others too: Own"):
        Policy(describe(model))


def test_it_runs_without_torch(tmp_path):
    file = tmp_path / "policy.onnx"
    file.write_bytes(GOOD)
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['stable_baselines3'] = None\n"
        "import adc_wrappers.policy\n"
        "policy = adc_wrappers.policy.load(sys.argv[1])\n"
        "print(policy([0.1, 0.2, 0.0]).tolist())\n"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("[0.1")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_names_the_extra(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "try: import adc_wrappers.policy\n"
        "except ImportError as error: print(error)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert install_command("export") in answer.stdout


def test_metadata_is_a_deployment_and_more():
    names = {field.name for field in dataclasses.fields(PolicyMetadata)}
    assert {"joint_names", "nominal_pose", "action_scale", "simulated_stiffness", "commanded_stiffness"} <= names


def test_weights_that_do_not_fill_their_shape_are_refused():
    model = make_model()
    model.graph.initializer[1].dims[:] = [2]
    with pytest.raises(PolicyFileError, match=r"not valid|cannot be read"):
        Policy(describe(model, network_sha256="0"))
