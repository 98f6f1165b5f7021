"""Policy files: ONNX with metadata inside, and digests over both."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import numpy_helper
from policy_helpers import describe, make_model

from adc_wrappers.policy import DIGEST_KEY, METADATA_KEY, Policy, PolicyFileError, load
from adc_wrappers.policy.graph import network_digest

from .mutations import mutate_bytes, mutate_json
from .targets import Mutant, Target, expect

__all__ = ["PolicyTarget"]

_SHIPPED = Path(__file__).parents[2] / "examples" / "policies" / "spot_handstand.onnx"
_GAINS = ("simulated_stiffness", "simulated_damping", "commanded_stiffness", "commanded_damping")
_OBSERVATIONS = 4


class PolicyTarget(Target):
    """A small policy and the shipped one.

    A mutant whose digests were left alone may be accepted only if it says and does what the original says and does. In
    others the metadata was changed and its digest renewed: they may be accepted with what the document says, no less.
    """

    name = "policy"
    errors = (PolicyFileError,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        small = describe(make_model(), commanded_stiffness=(60.0, 60.0), commanded_damping=(5.0, 5.0))
        self._contents = (small, small, small, _SHIPPED.read_bytes())
        self._originals = [Policy(content) for content in self._contents]
        self._answers = [policy(self._observations(policy)) for policy in self._originals]

    @staticmethod
    def _observations(policy: Policy) -> np.ndarray:
        size = policy.metadata.observation_size
        return np.random.default_rng(0).standard_normal((_OBSERVATIONS, size)).astype(np.float32)

    def mutate(self, rng: Random) -> Mutant:
        which = rng.randrange(len(self._contents))
        content, other = self._contents[which], self._contents[rng.randrange(len(self._contents))]
        notes = {"which": which, "renewed": False}
        choice = rng.random()
        if choice < 0.5:
            changed, name = mutate_bytes(rng, content, other)
            return Mutant(changed, name, notes)
        model = onnx.ModelProto.FromString(content)
        name = "metadata" if choice < 0.75 else _mutate_model(rng, model)
        notes["renewed"] = renewed = rng.random() < 0.6
        _renew(rng, model, mutate=choice < 0.75, renewed=renewed)
        return Mutant(model.SerializeToString(), f"{name}{', digests renewed' if renewed else ''}", notes)

    def read(self, mutant: Mutant) -> None:
        path = self.folder / "policy.onnx"
        path.write_bytes(mutant.content)
        policy = load(path)
        original = self._originals[mutant.notes["which"]]
        if mutant.notes["renewed"]:
            _check_vouched(mutant.content, policy)
        elif policy.metadata.to_json() in {known.metadata.to_json() for known in self._originals}:
            which = [known.metadata.to_json() for known in self._originals].index(policy.metadata.to_json())
            original = self._originals[which]
            answers = policy(self._observations(original))
            expect(
                np.array_equal(answers, self._answers[which]), "accepted, but it answers otherwise than the original"
            )
        else:
            expect(False, "accepted with other metadata than the digest vouches for")
        policy.targets(np.zeros(len(policy.joint_names)))
        if policy.metadata.training.config is not None:
            _ = policy.config


def _check_vouched(content: bytes, policy: Policy) -> None:
    model = onnx.ModelProto.FromString(content)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    text = entries[METADATA_KEY]
    expect(hashlib.sha256(text.encode()).hexdigest() == entries[DIGEST_KEY], "the document's digest is another")
    document = json.loads(text)
    for name in _GAINS:
        said, found = document[name], getattr(policy.metadata, name)
        expect((said is None and found is None) or list(found) == said, f"{name}: {found}, the document says {said}")
        expect(found is None or all(np.isfinite(value) and value > 0.0 for value in found), f"{name}: {found}")
    expect(document["network_sha256"] == network_digest(model), "the network's digest is another")


def _renew(rng: Random, model: onnx.ModelProto, *, mutate: bool, renewed: bool) -> None:
    """Change the document, or write the network's present digest into it; renew the document's digest if asked."""
    entries = {entry.key: entry for entry in reversed(model.metadata_props)}  # the first of each, if one was doubled
    document = entries[METADATA_KEY]
    values = json.loads(document.value)
    if mutate:
        changed, _ = mutate_json(rng, values)
        document.value = changed.decode(errors="replace")
    elif renewed:
        try:
            values["network_sha256"] = network_digest(model)
        except Exception:  # a network so broken that it has no digest; the library must say so itself
            return
        document.value = json.dumps(values)
    if renewed:
        entries[DIGEST_KEY].value = hashlib.sha256(document.value.encode(errors="replace")).hexdigest()


def _mutate_model(rng: Random, model: onnx.ModelProto) -> str:
    graph = model.graph
    names = ("weights", "type", "dims", "raw", "node", "drop node", "double node", "attribute", "opset", "ir", "input",
             "output", "rename", "external", "sparse", "entries", "function", "initializer as input")  # fmt: skip
    name = rng.choice(names)
    tensor, node = rng.choice(graph.initializer), rng.choice(graph.node)
    if name == "weights":
        values = np.array(numpy_helper.to_array(tensor))
        if values.size and values.dtype == np.float32:
            values.reshape(-1)[rng.randrange(values.size)] = rng.choice((0.0, 1.0, -1e30, np.nan, np.inf))
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    elif name == "type":
        tensor.data_type = rng.choice((0, 1, 2, 6, 7, 8, 10, 11, 14, 16, 17, 20, 21, 23, 99, -1))
    elif name == "dims":
        tensor.dims[:] = rng.choice(([], [-1], [0], [2**40], [2**62, 4], [1] * 70, list(tensor.dims)[::-1]))
    elif name == "raw":
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    elif name == "node":
        node.op_type = rng.choice(("", "Relu", "Loop", "If", "Constant", "Expand", "Nope", "Identity", "é"))
    elif name == "drop node":
        graph.node.remove(node)
    elif name == "double node":
        graph.node.add().CopyFrom(node)
    elif name == "attribute":
        attribute = node.attribute.add(name=rng.choice(("alpha", "x", "", "transB")), type=rng.randrange(15))
        attribute.f, attribute.i, attribute.s = rng.choice((0.5, float("nan"))), rng.choice((0, 1, -5)), b"\xff"
    elif name == "opset":
        model.opset_import[0].version = rng.choice((0, 1, 7, 13, 17, 19, 21, 25, 999, -1))
        model.opset_import[0].domain = rng.choice(("", "", "", "ai.onnx", "x"))
    elif name == "ir":
        model.ir_version = rng.choice((0, 3, 7, 8, 10, 99, 2**62))
    elif name in ("input", "output"):
        value = (graph.input if name == "input" else graph.output)[0]
        choice = rng.randrange(4)
        if choice == 0:
            value.type.tensor_type.elem_type = rng.choice((0, 2, 8, 11, 99))
        elif choice == 1:
            value.type.tensor_type.shape.dim.add(dim_value=rng.choice((1, 0, -1, 2**60)))
        elif choice == 2:
            value.type.sequence_type.elem_type.tensor_type.elem_type = 1
        else:
            (graph.input if name == "input" else graph.output).add().CopyFrom(value)
    elif name == "rename":
        node.input[0] = rng.choice(("", "nothing", node.output[0], graph.output[0].name))
    elif name == "external":
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="/etc/passwd")
    elif name == "sparse":
        graph.sparse_initializer.add().values.CopyFrom(tensor)
    elif name == "entries":
        entry = rng.choice(model.metadata_props)
        model.metadata_props.add(key=entry.key, value=rng.choice((entry.value, "", "{}")))
    elif name == "function":
        model.functions.add(name="Relu", domain=rng.choice(("", "x")))
    else:
        graph.input.add(name=tensor.name).type.tensor_type.elem_type = tensor.data_type
    return f"model: {name}"
