// Clients.

import { hostname } from 'node:os';
import { credentials, Metadata, type ChannelOptions } from '@grpc/grpc-js';
import { Connection, type ConnectionSettings } from './connection.js';
import { closedError } from './errors.js';
import type { InformerWatch } from './informer_watch.js';
import { Resource } from './resource.js';

/** How a client proves who it is, and which server it trusts. Certificates and keys have the PEM format. */
export interface TLSOptions {
  /** The certificates of the authorities that the client trusts. Default: those of Node.js. */
  readonly ca?: string | Uint8Array;
  /** The certificate of the client, followed by intermediate ones. */
  readonly cert?: string | Uint8Array;
  /** The key of the certificate of the client. */
  readonly key?: string | Uint8Array;
  /** The name in the certificate of the server. Default: the host of the address. */
  readonly serverName?: string;
}

/** How a program names itself. Operators see it, and the server does not check it. */
export interface SubscriberOptions {
  /** The instance of the program. Default: the name of the host and the process id. */
  readonly instance?: string;
  /** Labels, such as the name and the version of the program. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Options of a {@link Client}. */
export interface ClientOptions {
  /** Do not encrypt. Only for servers on the same machine or in a protected network. Default: TLS. */
  readonly insecure?: boolean;
  /** The settings of TLS. A function is called for each new connection, so that certificates can be renewed. */
  readonly tls?: TLSOptions | (() => TLSOptions);
  /**
   * A token that is sent with each request. A function is called for each request, and again if the server refuses
   * a token.
   */
  readonly token?: string | (() => string | Promise<string>);
  /** How the program names itself. */
  readonly subscriber?: SubscriberOptions;
  /** The interval in milliseconds of pings on idle connections, which keep proxies from cutting them. Default: 30 s. */
  readonly keepalive?: number;
}

/**
 * A client of one server, or of several servers over the same etcd. It connects when the first request needs it, and
 * again when a connection is lost. All its watches share one stream.
 *
 * ```ts
 * const client = new Client('127.0.0.1:7420', { insecure: true });
 * const config = client.resource('config');
 * ```
 */
export class Client implements AsyncDisposable {
  readonly #addresses: readonly string[];
  readonly #options: ClientOptions;
  readonly #connections = new Set<Connection>();
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** @internal The watches that informers share, by what they select. */
  readonly informerWatches = new Map<string, InformerWatch>();
  #current: Connection | undefined;
  #next: number;

  /**
   * @param servers The addresses of servers over the same etcd, such as `host:port`, `dns:///host:port` or
   * `unix:///run/fanoutd.sock`. A string may have several ones with commas between.
   */
  constructor(servers: string | readonly string[], options: ClientOptions = {}) {
    const list = typeof servers === 'string' ? servers.split(',') : servers;
    this.#addresses = list.map((address) => address.trim()).filter((address) => address !== '');
    if (this.#addresses.length === 0) throw new TypeError('no server');
    if (options.insecure && (options.tls || options.token !== undefined)) {
      throw new TypeError('a token or a certificate needs TLS, and insecure is set');
    }
    this.#options = options;
    this.#next = Math.floor(Math.random() * this.#addresses.length);
  }

  /** resource returns a resource. It is a cheap handle; nothing is sent. */
  resource(name: string): Resource {
    return new Resource(this, name);
  }

  /** close ends all requests, watches and informers, and waits for informers that save their state. */
  async close(): Promise<void> {
    this.#closing.abort(closedError());
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
    this.#current = undefined;
    await Promise.allSettled(this.#running);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal The signal that is aborted when the client is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** @internal Makes `close` wait. */
  running(work: Promise<unknown>): void {
    this.#running.add(work);
    const done = () => this.#running.delete(work);
    work.then(done, done);
  }

  /** @internal Whether another token may be accepted after one was refused. */
  get renewable(): boolean {
    return typeof this.#options.token === 'function' || typeof this.#options.tls === 'function';
  }

  /** @internal The connection for the next request. */
  connection(): Connection {
    this.#closing.signal.throwIfAborted();
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
      'grpc.keepalive_time_ms': keepalive,
      'grpc.keepalive_timeout_ms': 10_000,
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
