"""Checks of a policy's ONNX graph before anything runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adc_wrappers.core.errors import MissingExtraError

from .metadata import PolicyFileError

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper
except ImportError as error:
    raise MissingExtraError("onnx", "export", "Reading a policy file") from error

__all__ = ["check_network", "check_sizes", "metadata_entries", "network_digest", "parse"]


def parse(content: bytes) -> onnx.ModelProto:
    """Return the model in ``content``, whole and self-contained.

    Raises:
        PolicyFileError: It is no ONNX file, is cut off, or keeps weights in other files.
    """
    try:
        model = onnx.load_from_string(content)
    except DecodeError as error:
        raise PolicyFileError(f"expected an ONNX file, got something that cannot be read as one ({error}).") from error
    model.DiscardUnknownFields()  # fields of a newer ONNX, which a runtime might know and nobody here has checked
    if not model.graph.node:
        raise PolicyFileError("expected an ONNX file with a network in it, got one without; is it cut off?")
    foreign = {entry.domain for entry in model.opset_import} - {"", "ai.onnx"}
    if foreign or model.functions:
        names = sorted(foreign) or [function.name for function in model.functions]
        raise PolicyFileError(f"expected standard ONNX operators only, got others too: {', '.join(names)}.")
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise PolicyFileError(
                f"the weights {tensor.name!r} are kept in another file; expected one file with everything in it. "
                "Export the policy again with `adc export`."
            )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        raise PolicyFileError(f"the ONNX file is not valid: {error}") from error
    return model


def metadata_entries(model: onnx.ModelProto) -> dict[str, str]:
    """Return the metadata of a model by key."""
    entries: dict[Any, Any] = {entry.key: entry.value for entry in model.metadata_props}
    if not all(isinstance(text, str) for pair in entries.items() for text in pair):  # protobuf gives bytes then
        raise PolicyFileError("the ONNX metadata is not text in UTF-8; the file is damaged: get it again.")
    return entries


def network_digest(model: onnx.ModelProto) -> str:
    """Return the SHA-256 over a network: operators, how they are connected, their attributes, every weight.

    It does not depend on how protobuf happens to write the file.
    """
    digest = hashlib.sha256()
    _digest_graph(digest, model.graph)
    return digest.hexdigest()


def _digest_graph(digest: Any, graph: Any) -> None:
    names = [[value.name for value in values] for values in (graph.input, graph.output)]
    digest.update(repr(names).encode())
    for tensor in graph.initializer:
        _digest_tensor(digest, tensor)
    for node in graph.node:
        digest.update(repr([node.domain, node.op_type, list(node.input), list(node.output)]).encode())
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            digest.update(f"{attribute.name}|{attribute.type}|".encode())
            if attribute.type == onnx.AttributeProto.TENSOR:
                _digest_tensor(digest, attribute.t)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _digest_graph(digest, attribute.g)
            else:
                value = onnx.helper.get_attribute_value(attribute)
                digest.update(repr(list(value) if hasattr(value, "__iter__") else value).encode())


def _digest_tensor(digest: Any, tensor: Any) -> None:
    values = _numbers(tensor)
    digest.update(f"{tensor.name}|{values.dtype.name}|{values.shape}|".encode())
    digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())


def check_network(model: onnx.ModelProto, expected: str) -> None:
    """Refuse weights that are not finite, and a network that is not the one that was exported."""
    for tensor in _tensors(model.graph):
        values = _numbers(tensor)
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise PolicyFileError(f"the weights {tensor.name!r} are not all finite numbers; export a whole policy.")
    found = network_digest(model)
    if found != expected:
        raise PolicyFileError(
            f"the network is not the one that was exported (SHA-256 {found[:12]}…, the metadata says "
            f"{expected[:12]}…). The file is damaged or was changed: get it again."
        )


def check_sizes(model: onnx.ModelProto, observation_size: int, action_size: int) -> None:
    """Refuse a network that is not ``(n, observation) -> (n, action)`` in float32, with any n."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for kind, values, size in (("input", inputs, observation_size), ("output", model.graph.output, action_size)):
        if len(values) != 1:
            raise PolicyFileError(f"expected a network with one {kind}, got {len(values)}.")
        tensor = values[0].type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else "n" for dim in tensor.shape.dim]
        if tensor.elem_type != onnx.TensorProto.FLOAT or dims != ["n", size]:
            type_name = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
            raise PolicyFileError(
                f"expected an {kind} of shape (n, {size}) in float, as the metadata says; the network has "
                f"({', '.join(map(str, dims))}) in {type_name}."
            )


def _numbers(tensor: Any) -> NDArray[Any]:
    """Return a tensor's values, if there are as many of its kind as its shape says."""
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise PolicyFileError(f"the weights {tensor.name!r} cannot be read ({error}); get the file again.") from error


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every tensor of a graph and of the graphs inside its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)
