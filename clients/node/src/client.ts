// Clients.

import type { ClientOptions } from './client_options.js';
import { ConnectionPool } from './connection_pool.js';
import type { InformerState } from './observer.js';
import type { CloseOptions } from './options.js';
import { Resource } from './resource.js';

/**
 * A client of one server, or of several servers over the same etcd. It connects when the first request needs it, and
 * again when a connection is lost. All its watches share one stream.
 *
 * ```ts
 * const client = new Client('127.0.0.1:7420');
 * const config = client.resource('config');
 * ```
 */
export class Client implements AsyncDisposable {
  readonly #pool: ConnectionPool;

  /**
   * @param servers The addresses of servers over the same etcd, such as `host:port`, `dns:///host:port` or
   * `unix:///run/fanoutd.sock`. In a string, commas separate them.
   */
  constructor(servers: string | readonly string[], options: ClientOptions = {}) {
    const list = typeof servers === 'string' ? servers.split(',') : servers;
    const addresses = list.map((address) => address.trim()).filter((address) => address !== '');
    if (addresses.length === 0) throw new TypeError('no server');
    this.#pool = new ConnectionPool(addresses, options);
  }

  /** resource returns a resource. It is a cheap handle; nothing is sent. */
  resource(name: string): Resource {
    return new Resource(this.#pool, name);
  }

  /** The informers that run, for metrics. */
  get informers(): readonly InformerState[] {
    return [...this.#pool.informers];
  }

  /**
   * close ends all requests, watches and informers. It waits until the informers have saved their states, and for the
   * last call of each handler, except for one that it is called in. After the timeout it does not wait any longer.
   */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#pool.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
