// The connections of a client.

import { hostname } from 'node:os';
import { credentials, Metadata, type ChannelOptions } from '@grpc/grpc-js';
import type { ClientOptions } from './client_options.js';
import { Connection, type ConnectionSettings } from './connection.js';
import { closedError } from './errors.js';

/** The least interval of pings in milliseconds that servers permit, and the longest of a timer. */
const leastKeepalive = 10_000;
const longestKeepalive = 2 ** 31 - 1;

/**
 * ConnectionPool has the connection that a client uses, and older ones until their last request has ended. It also knows
 * what must end when the client is closed.
 */
export class ConnectionPool {
  readonly #addresses: readonly string[];
  readonly #options: ClientOptions;
  readonly #connections = new Set<Connection>();
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #current: Connection | undefined;
  #next: number;

  constructor(addresses: readonly string[], options: ClientOptions) {
    this.#addresses = addresses;
    this.#options = options;
    this.#next = Math.floor(Math.random() * addresses.length);
  }

  /** close ends all requests, and waits for what `running` was called with. */
  async close(): Promise<void> {
    this.#closing.abort(closedError());
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
    this.#current = undefined;
    await Promise.allSettled(this.#running);
  }

  /** The signal that is aborted when the client is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** running makes `close` wait for the work. */
  running(work: Promise<unknown>): void {
    this.#running.add(work);
    const done = () => this.#running.delete(work);
    work.then(done, done);
  }

  /** The addresses of the servers. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** alone returns a pool for one server, with the same settings. The certificate of the server must have the name. */
  alone(address: string, name: string | undefined): ConnectionPool {
    const { tls: given } = this.#options;
    if (name === undefined || this.#options.insecure) return new ConnectionPool([address], this.#options);
    const tls = () => {
      const settings = (typeof given === 'function' ? given() : given) ?? {};
      return { ...settings, serverName: settings.serverName ?? name };
    };
    return new ConnectionPool([address], { ...this.#options, tls });
  }

  /** Whether another token may be accepted after one was refused. */
  get renewable(): boolean {
    return typeof this.#options.token === 'function' || typeof this.#options.tls === 'function';
  }

  /** connection returns the connection for the next request. */
  connection(): Connection {
    this.#closing.signal.throwIfAborted();
    if (this.#current?.lost) this.#current.failed(this.#current);
    if (this.#current) return this.#current;
    const address = this.#addresses[this.#next++ % this.#addresses.length]!;
    const connection = new Connection(address, this.#settings(), (failed) => {
      if (this.#current === failed) this.#current = undefined;
      failed.retire();
    }, (closed) => this.#connections.delete(closed));
    this.#connections.add(connection);
    this.#current = connection;
    return connection;
  }

  #settings(): ConnectionSettings {
    const { insecure, tls: given, token, subscriber, keepalive = 30_000 } = this.#options;
    const tls = (typeof given === 'function' ? given() : given) ?? {};
    const pem = (content: string | Uint8Array | undefined) => (content === undefined ? null : Buffer.from(content));
    const options: ChannelOptions = {
      // Each connection has a TCP connection of its own. The default would share a dead one.
      'grpc.use_local_subchannel_pool': 1,
      // One of the addresses of a name, at random.
      'grpc.service_config': JSON.stringify({ loadBalancingConfig: [{ pick_first: { shuffleAddressList: true } }] }),
      'grpc.service_config_disable_resolution': 1,
      'grpc.max_receive_message_length': -1,
      'grpc.keepalive_time_ms': Math.min(Math.max(keepalive, leastKeepalive), longestKeepalive),
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.keepalive_permit_without_calls': 1,
      'grpc.primary_user_agent': 'fanoutd-client-node',
      ...(tls.serverName !== undefined && { 'grpc.ssl_target_name_override': tls.serverName }),
    };
    return {
      credentials: insecure ? credentials.createInsecure() : credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert)),
      options,
      subscriber: { instance: `${hostname()}/${process.pid}`, ...subscriber },
      metadata: async () => {
        const metadata = new Metadata();
        const value = typeof token === 'function' ? await token() : token;
        if (value !== undefined) metadata.set('authorization', `Bearer ${value}`);
        return metadata;
      },
    };
  }
}
