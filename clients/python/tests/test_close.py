"""A client may be closed anywhere, and more than once."""

from __future__ import annotations

import asyncio
import threading
import unittest
from typing import Any
from unittest import mock

import grpc

import fanoutd
import fanoutd.sync
from fanoutd.loop_thread import LoopThread
from tests.scripted import Failure, Scripted

_TIMEOUT = 300.0


class CloseTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.server = await Scripted().start()
        self.addAsyncCleanup(self.server.stop)

    async def test_in_a_token_function(self) -> None:
        async def token() -> str:
            await client.close()
            return "token"

        client = fanoutd.Client(self.server.address, token=token)
        with self.assertRaises(fanoutd.ClosedError):
            await client.resource("config").get("a")
        client = fanoutd.Client(self.server.address, token=token)
        with self.assertRaises(fanoutd.ClosedError):
            await anext(client.resource("config").watch())
        await client.close()

    async def test_handlers_of_an_informer_that_has_ended_are_called_no_more(self) -> None:
        refuse = asyncio.Event()

        async def watch(_: int, __: Any, context: Any) -> None:
            await refuse.wait()
            failure = Failure(grpc.StatusCode.PERMISSION_DENIED, fanoutd.Reason.PERMISSION_DENIED)
            context.set_trailing_metadata((("grpc-status-details-bin", failure.status().SerializeToString()),))
            await context.abort(failure.code, "scripted")

        self.server.watch = watch
        client = fanoutd.Client(self.server.address)
        self.addAsyncCleanup(client.close)

        def handle(_: object) -> None:
            refuse.set()
            raise ValueError("never accepted")

        async with asyncio.timeout(_TIMEOUT):
            informer = client.resource("config").informer(fanoutd.decode.as_text)
            informer.add_handler(handle)
            informer.start()
            with self.assertRaises(fanoutd.Error):
                await informer.wait_closed()
            with self.assertRaises(fanoutd.Error):
                await informer.wait_for_sync(_TIMEOUT)
            handlers = set(informer._copy._handler_tasks)
            if handlers:
                await asyncio.wait(handlers)

    async def test_in_an_interceptor(self) -> None:
        class Closes(grpc.aio.UnaryUnaryClientInterceptor, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
            async def intercept_unary_unary(self, go: Any, details: Any, request: Any) -> Any:
                await client.close()
                return await go(details, request)

            async def intercept_unary_stream(self, go: Any, details: Any, request: Any) -> Any:
                await client.close()
                return await go(details, request)

        interceptor = Closes()
        for _ in range(2):
            client = fanoutd.Client(self.server.address, interceptors=[interceptor])
            with self.assertRaises(fanoutd.ClosedError):
                await client.resource("config").get("a")
        await client.close()
        client = fanoutd.Client(self.server.address, interceptors=[_only_streams(interceptor)])
        with self.assertRaises(fanoutd.ClosedError):
            await anext(client.resource("config").watch())
        await client.close()

    async def test_in_on_interruption(self) -> None:
        closing: list[asyncio.Task[None]] = []

        def close(why: BaseException) -> None:
            watch.close()
            closing.append(asyncio.create_task(client.close()))

        async def end(n: int, request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")

        self.server.watch = end
        client = fanoutd.Client(self.server.address)
        watch = client.resource("config").watch(on_interruption=close)
        updates = [update async for update in watch]
        self.assertTrue(updates[-1].synced)
        await closing[0]
        with self.assertRaises(fanoutd.ClosedError):
            await client.resource("config").get("a")

    async def test_in_a_hook(self) -> None:
        class Closes(fanoutd.Observer):
            def request(self, event: fanoutd.RequestEnded) -> None:
                closing.append(asyncio.create_task(client.close()))

        closing: list[asyncio.Task[None]] = []
        client = fanoutd.Client(self.server.address, observer=Closes())
        self.assertEqual((await client.resource("config").get("a")).value, "1")
        await closing[0]

    async def test_together_and_again(self) -> None:
        client = fanoutd.Client(self.server.address)
        await client.resource("config").get("a")
        cancelled = asyncio.create_task(client.close())
        others = [asyncio.create_task(client.close()) for _ in range(5)]
        await asyncio.sleep(0)
        cancelled.cancel()  # the others still wait for the end
        await asyncio.gather(*others)
        self.assertFalse(client._core.process.is_this and client._core.tasks._all)
        await client.close()

    async def test_close_does_not_wait_for_the_calls_of_other_clients(self) -> None:
        async with fanoutd.Client(self.server.address) as other:
            watch = other.resource("config").watch()
            await anext(watch)
            client = fanoutd.Client(self.server.address)
            await client.resource("config").get("a")
            with mock.patch("fanoutd.core._END_OF_CALLS", 10 * _TIMEOUT):
                async with asyncio.timeout(_TIMEOUT):
                    await client.close()

    async def test_a_task_that_does_not_end(self) -> None:
        go = asyncio.Event()

        async def stubborn() -> str:
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    pass
            return "token"

        client = fanoutd.Client(self.server.address, token=stubborn)
        waiting = asyncio.create_task(anext(client.resource("config").watch()))
        await asyncio.sleep(0)
        with mock.patch("fanoutd.tasks._CLOSE_TIMEOUT", 0.05), self.assertLogs("fanoutd", "WARNING"):
            await client.close()
        go.set()
        with self.assertRaises(fanoutd.ClosedError):
            await waiting


class BlockingCloseTest(unittest.TestCase):
    def test_in_a_token_function_together_and_again(self) -> None:
        # The server runs in the event loop of the clients, because gRPC works badly in two.
        thread = LoopThread.enter()
        self.addCleanup(thread.leave)
        server = thread.submit(_started()).result()
        self.addCleanup(lambda: thread.submit(server.stop()).result())

        def token() -> str:
            client.close()
            return "token"

        client = fanoutd.sync.Client(server.address, token=token)
        with self.assertRaises(fanoutd.ClosedError):
            client.resource("config").get("a")
        closers = [threading.Thread(target=client.close) for _ in range(5)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        self.assertTrue(client.closed)
        with self.assertRaises(fanoutd.ClosedError):
            client.resource("config").get("a")


async def _started() -> Scripted:
    return await Scripted().start()


def _only_streams(interceptor: Any) -> Any:
    class Streams(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
        async def intercept_unary_stream(self, go: Any, details: Any, request: Any) -> Any:
            return await interceptor.intercept_unary_stream(go, details, request)

    return Streams()


if __name__ == "__main__":
    unittest.main()
