"""Keeps a copy with etcd3. The package internal/copies describes what it prints."""

import sys

import etcd3

_PREFIX = "/fanoutd/bench/"


def main() -> None:
    address, objects = sys.argv[1], int(sys.argv[2])
    host, port = address.rsplit(":", 1)
    client = etcd3.client(host, int(port), grpc_options=[("grpc.max_receive_message_length", -1)])
    response = client.get_prefix_response(_PREFIX)
    copy = {kv.key.decode(): kv.value.decode() for kv in response.kvs}
    revision = response.header.revision
    del response
    watch, _ = client.watch_prefix_response(_PREFIX, start_revision=revision + 1)
    if len(copy) == objects:
        print("loaded", flush=True)
    changes = 0
    for response in watch:
        for event in response.events:
            if isinstance(event, etcd3.events.PutEvent):
                copy[event.key.decode()] = event.value.decode()
                changes += 1
                if changes == objects:
                    print("changed", flush=True)
            else:
                del copy[event.key.decode()]


try:
    main()
except KeyboardInterrupt:
    pass
