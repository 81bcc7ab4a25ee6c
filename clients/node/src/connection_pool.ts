// The connections of a client.

import { performance } from 'node:perf_hooks';
import { addressOf } from './address.js';
import { Backoff, pause } from './backoff.js';
import type { ClientOptions, TLSOptions } from './client_options.js';
import { Connection, type ConnectionOwner } from './connection.js';
import { Credentials } from './credentials.js';
import { deadlineError, limited, type Deadline } from './deadline.js';
import { closedError, FanoutError, unavailable } from './errors.js';
import { abandonCalls } from './handler_calls.js';
import { InterruptionLog } from './interruption_log.js';
import { FencedLogger } from './logger.js';
import { Hooks, type InformerState } from './observer.js';
import type { CloseOptions } from './options.js';
import { SubscribeSupport } from './subscribe_support.js';

/** How long in milliseconds a server has to complete a connection. */
const connectTimeout = 5000;
/** After this time in milliseconds without a connection, the client tries the next server at the same time. */
const nextServerAfter = 1000;

/**
 * ConnectionPool has at most one connection to each server that later requests may use, and older ones until their last
 * request has ended. It also knows what must end when the client is closed.
 */
export class ConnectionPool implements ConnectionOwner {
  readonly hooks: Hooks;
  readonly log: FencedLogger;
  readonly interruptions: InterruptionLog;
  readonly subscribe = new SubscribeSupport();
  readonly #options: ClientOptions;
  /** The informers that run. */
  readonly informers = new Set<InformerState>();
  readonly #credentials: Credentials;
  readonly #servers: readonly string[];
  readonly #connections = new Set<Connection>();
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #backoff = new Backoff();
  readonly #usable = new Map<number, Connection>(); // for each server
  #turn: number; // the index of the server that is used, or tried first
  #effort: Promise<Connection> | undefined;
  #notBefore = -Infinity; // when the next effort may begin
  #failure: FanoutError | undefined; // of the last effort

  constructor(servers: readonly string[], options: ClientOptions) {
    const addresses = servers.map(addressOf);
    this.#servers = addresses.map(({ target }) => target);
    this.#options = options;
    this.#credentials = new Credentials(options, addresses);
    this.hooks = new Hooks(options.observer);
    this.log = new FencedLogger(options.logger);
    this.interruptions = new InterruptionLog(this.log);
    this.#turn = Math.floor(Math.random() * servers.length);
  }

  /** Milliseconds that informers wait for their handlers when they end. */
  patience = 10_000;

  /** close ends all requests, and waits for what `running` was called with. */
  async close({ timeout }: CloseOptions = {}): Promise<void> {
    this.patience = timeout ?? this.patience;
    abandonCalls(this);
    this.#closing.abort(closedError());
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
    this.#usable.clear();
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
    return this.#servers;
  }

  /**
   * alone returns a pool for one of the servers, or for one of several behind its name, which the certificate of the server
   * must have. The settings are the same.
   */
  alone(address: string, name: string | undefined): ConnectionPool {
    const { tls } = this.#options;
    if (!this.#credentials.encrypts) return new ConnectionPool([address], this.#options);
    const named = (settings: TLSOptions) => ({ ...settings, serverName: settings.serverName ?? name });
    return new ConnectionPool([address], { ...this.#options, tls: typeof tls === 'function' ? () => named(tls()) : named(tls ?? {}) });
  }

  /** Whether another token or certificate may be accepted after one was refused. */
  get renewable(): boolean {
    return this.#credentials.renewable;
  }

  /** Whether there are several servers. */
  get hasOthers(): boolean {
    return this.#servers.length > 1;
  }

  /** renew makes the next request use the newest certificate. */
  renew(connection: Connection): void {
    if (!this.#credentials.certificateRenewable) return;
    // The other connections are as old as the one that is used.
    for (const old of this.#isUsable(connection) ? [...this.#usable.values()] : []) this.#replace(old);
    connection.retire();
  }

  /**
   * connect returns a connection that is ready. All that need one wait for the same effort to connect, which goes on
   * when a caller stops to wait.
   */
  async connect({ signal, deadline }: { signal?: AbortSignal | undefined; deadline?: Deadline }): Promise<Connection> {
    for (;;) {
      this.closing.throwIfAborted();
      const current = this.#usable.get(this.#turn);
      if (current) return current;
      if (deadline && deadline.left <= Math.max(0, this.#notBefore - performance.now())) throw deadlineError(this.#failure);
      await limited((this.#effort ??= this.#connect()), { signals: [signal, this.closing], deadline });
    }
  }

  /** #connect is an effort to connect: it tries each server once. */
  async #connect(): Promise<Connection> {
    try {
      await pause(Math.max(0, this.#notBefore - performance.now()), this.closing);
      const connection = await this.#first();
      this.#usable.set(connection.server, connection);
      this.#turn = connection.server;
      this.#backoff.reset();
      this.#failure = undefined;
      return connection;
    } catch (error) {
      if (!(error instanceof FanoutError)) throw error;
      this.#failure = error;
      this.#notBefore = performance.now() + this.#backoff.next();
      throw error;
    } finally {
      this.#effort = undefined;
    }
  }

  /** #first returns the first connection that is ready. A server that takes long does not delay those after it. */
  #first(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const servers = this.#servers.map((_, n) => (this.#turn + n) % this.#servers.length);
      const attempts = new Set<Connection>();
      const failures: FanoutError[] = [];
      let timer: NodeJS.Timeout | undefined;
      let done = false;
      const begin = () => {
        clearTimeout(timer);
        const server = servers.shift();
        if (server === undefined || done) return;
        if (servers.length > 0) timer = setTimeout(begin, nextServerAfter);
        const left = servers.length;
        this.#open(server, attempts).then(
          (connection) => {
            attempts.delete(connection);
            if (done) return;
            done = true;
            clearTimeout(timer);
            for (const other of attempts) other.close();
            resolve(connection);
          },
          (error: unknown) => {
            failures.push(error as FanoutError);
            if (failures.length === this.#servers.length) reject(togetherOf(failures));
            else if (servers.length === left) begin(); // nothing was begun after it
          },
        );
      };
      begin();
    });
  }

  async #open(server: number, attempts: Set<Connection>): Promise<Connection> {
    this.closing.throwIfAborted();
    const usable = this.#usable.get(server);
    if (usable) return usable;
    const connection = new Connection(server, this.#servers[server]!, this.#credentials.settingsOf(server), this);
    this.#connections.add(connection);
    attempts.add(connection);
    try {
      await connection.connect(connectTimeout);
      return connection;
    } catch (error) {
      attempts.delete(connection);
      throw error;
    }
  }

  #isUsable(connection: Connection): boolean {
    return this.#usable.get(connection.server) === connection;
  }

  /** failed makes later requests use another connection, at another server if there is one. */
  failed(connection: Connection): void {
    this.refused(connection);
    this.#replace(connection);
  }

  /** refused makes later requests use another server. The connection is used again when it is the turn of its server. */
  refused(connection: Connection): void {
    if (this.#turn === connection.server && this.#isUsable(connection)) this.#turn = (this.#turn + 1) % this.#servers.length;
  }

  #replace(connection: Connection): void {
    if (this.#isUsable(connection)) this.#usable.delete(connection.server);
    connection.retire();
  }

  /** gone forgets a connection that is closed. */
  gone(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.#isUsable(connection)) this.failed(connection);
  }
}

/** togetherOf returns one error for the failures of all servers. */
function togetherOf(failures: readonly FanoutError[]): FanoutError {
  const closed = failures.find(({ reason }) => reason !== undefined);
  if (closed) return closed;
  return failures.length === 1 ? failures[0]! : unavailable(`no server can be reached: ${failures.map(({ message }) => message).join('; ')}`);
}
