// The sockets of a connection attempt.

import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** Node.js publishes each new socket of a client here. */
const newSockets = 'net.client.socket';

const opener = new AsyncLocalStorage<OpenedSockets>();

/**
 * OpenedSockets collects the sockets that an attempt to connect opens. grpc-js has no limit for the handshake of TLS and
 * for the first frame of HTTP/2, and leaves the socket open when its channel is closed before. Such a socket would keep
 * the process alive for as long as the server is silent.
 */
export class OpenedSockets {
  readonly #sockets = new Set<Socket>();

  constructor() {
    subscribe(newSockets, this.#opened);
  }

  /** during calls a function. The sockets that are opened in consequence belong to the attempt. */
  during(open: () => void): void {
    opener.run(this, open);
  }

  readonly #opened = (message: unknown): void => {
    if (opener.getStore() === this) this.#sockets.add((message as { socket: Socket }).socket);
  };

  /** keep ends the collection. */
  keep(): void {
    unsubscribe(newSockets, this.#opened);
    this.#sockets.clear();
  }

  /** abandon closes the sockets. */
  abandon(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.keep();
  }
}
