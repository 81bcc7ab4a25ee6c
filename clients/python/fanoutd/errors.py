"""Errors of requests, with their reasons."""

from __future__ import annotations

import enum
from typing import NamedTuple

import grpc

from fanoutd.v1 import errordetails_pb2
from fanoutd.v1.status import status_pb2

__all__ = ["ClosedError", "Error", "NotFoundError", "PreconditionFailedError", "Reason", "Violation"]

# The domain of the reasons.
_DOMAIN = "fanoutd.github.io"


class Reason(str, enum.Enum):
    """Why a request failed. docs/reference/errors.md explains each reason.

    A newer server may send other reasons; they are plain strings in ``Error.reason``.
    """

    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_RESOURCE = "UNKNOWN_RESOURCE"
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    WATCH_NOT_FOUND = "WATCH_NOT_FOUND"
    WATCH_ID_IN_USE = "WATCH_ID_IN_USE"
    REVISION_IN_FUTURE = "REVISION_IN_FUTURE"
    REVISION_NOT_REACHED = "REVISION_NOT_REACHED"
    REVISION_EXPIRED = "REVISION_EXPIRED"
    PAGE_TOKEN_EXPIRED = "PAGE_TOKEN_EXPIRED"
    POSITION_EXPIRED = "POSITION_EXPIRED"
    EPOCH_CHANGED = "EPOCH_CHANGED"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    OPAQUE_VALUE = "OPAQUE_VALUE"
    VALUE_REFUSED = "VALUE_REFUSED"
    WRITE_CONTENDED = "WRITE_CONTENDED"
    WRITE_TOO_LARGE = "WRITE_TOO_LARGE"
    NO_HISTORY = "NO_HISTORY"
    NOT_READY = "NOT_READY"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    CLUSTER_FORMING = "CLUSTER_FORMING"
    WRITE_NOT_APPLIED = "WRITE_NOT_APPLIED"
    NO_CLUSTER = "NO_CLUSTER"
    CLUSTER_UNSAFE = "CLUSTER_UNSAFE"
    MEMBER_NOT_FOUND = "MEMBER_NOT_FOUND"
    STORE_FULL = "STORE_FULL"
    DRAINING = "DRAINING"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    ISSUER_UNAVAILABLE = "ISSUER_UNAVAILABLE"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    INTERNAL = "INTERNAL"
    LIMIT_REACHED = "LIMIT_REACHED"
    RATE_LIMITED = "RATE_LIMITED"
    REQUEST_TOO_LARGE = "REQUEST_TOO_LARGE"


class Violation(NamedTuple):
    """One fault of an invalid request."""

    field: str
    """The path of the field, such as ``operations[3].put.key``."""
    description: str


class Error(Exception):
    """The error of a failed request. Decide by ``reason``, and by ``code`` where there is none."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str | None = None,
        metadata: dict[str, str] | None = None,
        retry_after: float = 0.0,
        violations: tuple[Violation, ...] = (),
    ) -> None:
        super().__init__(f"{message} ({reason or code.name})")
        self.code = code
        """The code of gRPC."""
        self.message = message
        """The message for people."""
        self.reason = reason
        """The reason: compare it with ``Reason``. None: the error does not come from fanoutd."""
        self.metadata = metadata or {}
        """Details for programs; docs/reference/errors.md lists them."""
        self.retry_after = retry_after
        """The seconds to wait before the same request may succeed."""
        self.violations = violations
        """What is wrong with an invalid request."""


class NotFoundError(Error):
    """There is no object with the key."""


class PreconditionFailedError(Error):
    """The precondition of a write does not hold. Nothing was written."""


class ClosedError(Exception):
    """The client, the watch or the informer was closed."""


_KINDS: dict[str, type[Error]] = {
    Reason.KEY_NOT_FOUND.value: NotFoundError,
    Reason.PRECONDITION_FAILED.value: PreconditionFailedError,
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def error_of_status(status: status_pb2.Status) -> Error:
    """Return the error of a status that is part of a message."""
    reason: str | None = None
    metadata: dict[str, str] = {}
    retry_after = 0.0
    violations: list[Violation] = []
    for detail in status.details:
        if detail.type_url.endswith("/google.rpc.ErrorInfo"):
            info = errordetails_pb2.ErrorInfo.FromString(detail.value)
            if info.domain == _DOMAIN:
                reason, metadata = info.reason, dict(info.metadata)
        elif detail.type_url.endswith("/google.rpc.RetryInfo"):
            delay = errordetails_pb2.RetryInfo.FromString(detail.value).retry_delay
            retry_after = delay.seconds + delay.nanos / 1e9
        elif detail.type_url.endswith("/google.rpc.BadRequest"):
            bad = errordetails_pb2.BadRequest.FromString(detail.value)
            violations += [Violation(v.field, v.description) for v in bad.field_violations]
    kind = _KINDS.get(reason or "", Error)
    return kind(
        _CODES.get(status.code, grpc.StatusCode.UNKNOWN),
        status.message,
        reason=reason or None,
        metadata=metadata,
        retry_after=retry_after,
        violations=tuple(violations),
    )


def error_of_call(error: grpc.aio.AioRpcError) -> Error:
    """Return the error of a call."""
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            try:
                status = status_pb2.Status.FromString(value)
            except Exception:  # a proxy may have damaged it; the parser raises many types
                break
            if status.code == error.code().value[0]:
                return error_of_status(status)
    return Error(error.code(), error.details() or "no message")
