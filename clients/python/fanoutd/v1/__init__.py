"""The generated code of the protocol, for requests that the client has no function for.

It has the same names as the protocol: ``fanoutd.v1.fanout_pb2``, ``fanoutd.v1.admin_pb2_grpc`` and so on.
"""
