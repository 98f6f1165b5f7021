"""Policy files made by hand, without torch."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from adc_wrappers.envs import Deployment, ObservationPart
from adc_wrappers.policy import DIGEST_KEY, METADATA_KEY, PolicyMetadata, TrainingRecord
from adc_wrappers.policy.graph import network_digest

DEPLOYMENT = Deployment(
    joint_names=("hip", "knee"),
    nominal_pose=(0.1, -1.5),
    action_scale=(0.9, 0.5),
    action_limit=1.0,
    policy_step=0.02,
    physics_step=0.002,
    observation=(ObservationPart(name="speed", size=2, unit="m/s"), ObservationPart(name="last_action", size=1)),
)


def make_metadata(**changes):
    values = {
        **{field.name: getattr(DEPLOYMENT, field.name) for field in dataclasses.fields(Deployment)},
        "simulated_stiffness": (40.0, 40.0),
        "simulated_damping": (4.0, 4.0),
        "commanded_stiffness": None,
        "commanded_damping": None,
        "observation_scale": None,
        "curriculum": {"progress": 1.0},
        "training": TrainingRecord(config=None, steps=7, commit="abc"),
        "library_version": "0",
        "network_sha256": "",
    }
    return PolicyMetadata(**{**values, **changes})


WEIGHTS = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]], dtype=np.float32)


def make_model(weights=WEIGHTS, batch="n", inputs=3, kind=TensorProto.FLOAT):
    """Return the network ``clip(observation @ weights)``."""
    tensor = numpy_helper.from_array(np.asarray(weights, dtype=helper.tensor_dtype_to_np_dtype(kind)), "weights")
    limits = [numpy_helper.from_array(np.array(x, dtype=helper.tensor_dtype_to_np_dtype(kind)), n) for x, n in
              ((-1.0, "low"), (1.0, "high"))]  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["observation", "weights"], ["raw"]),
            helper.make_node("Clip", ["raw", "low", "high"], ["action"]),
        ],
        "policy",
        [helper.make_tensor_value_info("observation", kind, [batch, inputs])],
        [helper.make_tensor_value_info("action", kind, [batch, np.shape(weights)[1]])],
        [tensor, *limits],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def describe(model, text=None, **changes):
    """Return the bytes of a model with its metadata inside."""
    if text is None:
        text = make_metadata(**{"network_sha256": network_digest(model), **changes}).to_json()
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for key, value in ((DIGEST_KEY, hashlib.sha256(text.encode()).hexdigest()), (METADATA_KEY, text)):
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()
