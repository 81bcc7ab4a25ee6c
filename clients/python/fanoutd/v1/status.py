"""Chooses the code of google/rpc/status.proto.

A process can register this file once only. So the copy of googleapis-common-protos is used if that is
installed, because other packages use it, too.
"""

try:
    from google.rpc import status_pb2
except ImportError:
    from fanoutd.v1 import status_pb2

__all__ = ["status_pb2"]
