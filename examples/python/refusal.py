"""Reads the details of a failed request."""

import grpc

import errordetails_pb2

# With these codes, the same request fails again however often it is sent.
FINAL = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
)


class Refusal:
    """The content of an RpcError. docs/errors.md lists the reasons.

    If you install packages from PyPI, grpcio-status and googleapis-common-protos have
    the types for this.
    """

    def __init__(self, error):
        self.code = error.code()
        self.message = error.details()
        self.reason = None  # only errors of fanoutd have a reason
        self.retry_after = 0.0  # seconds
        for name, value in error.trailing_metadata() or ():
            if name == "grpc-status-details-bin":
                self._read(errordetails_pb2.Status.FromString(value))

    def _read(self, status):
        for detail in status.details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                self.reason = errordetails_pb2.ErrorInfo.FromString(detail.value).reason
            elif detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = errordetails_pb2.RetryInfo.FromString(detail.value).retry_delay
                self.retry_after = delay.ToTimedelta().total_seconds()

    @property
    def final(self):
        """Whether no retry can help."""
        return self.code in FINAL

    @property
    def position_lost(self):
        """Whether the server can never continue from the position."""
        return self.code == grpc.StatusCode.OUT_OF_RANGE

    def __str__(self):
        return f"{self.reason or self.code.name}: {self.message}"
