// The sockets of a connection attempt.

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

const opener = new AsyncLocalStorage<OpenedSockets>();

/**
 * OpenedSockets collects the sockets that an attempt to connect opens. grpc-js has no limit for the handshake of TLS and
 * for the first frame of HTTP/2, and leaves the socket open when its channel is closed before. Such a socket would keep
 * the process alive for as long as the server is silent.
 */
export class OpenedSockets {
  readonly #sockets = new Set<Socket>();
  #fate: 'open' | 'kept' | 'abandoned' = 'open';

  /** during calls a function. The sockets that are opened in consequence belong to the attempt. */
  during(open: () => void): void {
    opener.run(this, open);
  }

  /** opened notes a socket of the attempt. grpc-js may open one even when its channel is closed. */
  opened(socket: Socket): void {
    if (this.#fate === 'open') this.#sockets.add(socket);
    // Not at once: to connect would open it again.
    else if (this.#fate === 'abandoned') process.nextTick(() => socket.destroy());
  }

  /** keep ends the collection. */
  keep(): void {
    this.#fate = 'kept';
    this.#sockets.clear();
  }

  /** abandon closes the sockets, also those that are opened later. */
  abandon(): void {
    this.#fate = 'abandoned';
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }
}

// Node.js publishes each new socket of a client. One function for all attempts stays, because none knows its last socket.
subscribe('net.client.socket', (message) => opener.getStore()?.opened((message as { socket: Socket }).socket));
