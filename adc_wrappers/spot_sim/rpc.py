"""Plain functions as gRPC handlers: headers, the login check, and what a service is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .robot import SimulatedSpot
from .wire import grpc, header_pb2, timestamp

__all__ = ["Service", "StreamIn", "StreamOut", "Unary", "handlers"]


@dataclass(frozen=True)
class Unary:
    """A method of one request and one response, which ``act`` fills; the header is not its business."""

    request: Any
    response: Any
    act: Callable[[Any, Any], None]


@dataclass(frozen=True)
class StreamIn:
    """A method that takes a stream of requests and gives one response."""

    request: Any
    act: Callable[[Iterator[Any], Any], Any]


@dataclass(frozen=True)
class StreamOut:
    """A method that takes one request and gives a stream of responses."""

    request: Any
    act: Callable[[Any, Any], Iterator[Any]]


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service as the directory lists it."""

    name: str
    """Under which clients ask for it."""

    type: str
    """Its name in the protocol."""

    authority: str
    """The host name to which its certificate belongs."""

    public: bool = False
    """Whether it needs no login."""

    methods: dict[str, Unary | StreamIn | StreamOut] = field(default_factory=dict)


def handlers(service: Service, robot: SimulatedSpot) -> Any:
    """Return the gRPC handlers of a service; methods it does not have answer UNIMPLEMENTED."""
    table = {name: _handler(method, robot, service.public) for name, method in service.methods.items()}
    return grpc.method_handlers_generic_handler(service.type, table)


def _handler(method: Unary | StreamIn | StreamOut, robot: SimulatedSpot, public: bool) -> Any:
    def admit(context: Any) -> None:
        if not public and not robot.accounts.valid(_token(context)):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or expired: log in")

    if isinstance(method, Unary):
        return grpc.unary_unary_rpc_method_handler(
            _answered(method, robot, admit), method.request.FromString, method.response.SerializeToString
        )

    def stream(requests: Any, context: Any) -> Any:
        admit(context)
        return method.act(requests, context)

    make = (
        grpc.stream_unary_rpc_method_handler if isinstance(method, StreamIn) else grpc.unary_stream_rpc_method_handler
    )
    return make(stream, method.request.FromString, lambda message: message.SerializeToString())


def _answered(method: Unary, robot: SimulatedSpot, admit: Callable[[Any], None]) -> Callable[[Any, Any], Any]:
    def call(request: Any, context: Any) -> Any:
        received = robot.clock.now()
        admit(context)
        response = method.response()
        with robot.lock:
            method.act(request, response)
            header = response.header
            header.request_header.CopyFrom(request.header)
            header.request_received_timestamp.CopyFrom(timestamp(received))
            header.response_timestamp.CopyFrom(timestamp(robot.clock.now()))
            if not header.HasField("error"):
                header.error.code = header_pb2.CommonError.CODE_OK
        return response

    return call


def _token(context: Any) -> str:
    words = str(dict(context.invocation_metadata()).get("authorization", "")).split()
    return words[1] if len(words) == 2 and words[0] == "Bearer" else ""
