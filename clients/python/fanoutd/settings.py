"""The options of clients."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from fanoutd.credentials import TLS, Token, TokenSource, is_local
from fanoutd.observer import Fenced, Observer
from fanoutd.v1 import fanout_pb2

__all__ = ["Configured", "Settings"]


@dataclass(frozen=True)
class Settings:
    """What the options of a client mean."""

    addresses: Sequence[str]
    tls: TLS | None
    token: Token | None
    subscriber: fanout_pb2.Subscriber
    log: logging.Logger
    observer: Fenced
    options: Sequence[tuple[str, Any]]
    interceptors: Sequence[grpc.aio.ClientInterceptor]

    def of(self, address: str, name: str | None) -> Settings:
        """Return the settings for one server, whose certificate must have the name if there is one."""
        tls = self.tls
        if tls is not None and tls.server_name is None:
            tls = dataclasses.replace(tls, server_name=name)
        return dataclasses.replace(self, addresses=[address], tls=tls)


class Configured:
    """A client, with asyncio or without. Both have the same options."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        tls: TLS | None = None,
        insecure: bool = False,
        token: str | TokenSource | None = None,
        token_file: str | None = None,
        instance: str | None = None,
        labels: Mapping[str, str] | None = None,
        logger: logging.Logger | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
        options: Sequence[tuple[str, Any]] = (),
        observer: Observer | None = None,
    ) -> None:
        addresses = [a.strip() for a in servers.split(",")] if isinstance(servers, str) else list(servers)
        if insecure and tls is not None:
            raise ValueError("insecure and tls exclude each other")
        if tls is None and not insecure and not all(map(is_local, addresses)):
            tls = TLS()
        source: Token | None = None
        if token is not None and token_file is not None:
            raise ValueError("token and token_file exclude each other")
        if token is not None:
            source = Token.fixed(token) if isinstance(token, str) else Token(token)
        elif token_file is not None:
            source = Token.of_file(token_file)
        log = logger or logging.getLogger("fanoutd")
        subscriber = fanout_pb2.Subscriber(
            instance=f"{socket.gethostname()}/{os.getpid()}" if instance is None else instance, labels=labels or {}
        )
        self._set_up(Settings(addresses, tls, source, subscriber, log, Fenced(observer, log), options, interceptors))

    def _set_up(self, settings: Settings) -> None:
        """Make what the client consists of: the second half of the constructor."""
        raise NotImplementedError
