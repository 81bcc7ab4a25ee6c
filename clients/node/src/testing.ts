/**
 * A server for the tests of programs that use the client.
 *
 * @packageDocumentation
 */

import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { status } from '@grpc/grpc-js';
import type { Reason } from './errors.js';

const defaultProgram = 'fanouttest';
const variable = 'FANOUTTEST';

/** Options of a {@link TestServer}. */
export interface TestServerOptions {
  /** The names of the resources, which are empty. Default: `config`. */
  readonly resources?: readonly string[] | undefined;
  /** The program. Default: the environment variable FANOUTTEST, or `fanouttest` in the folders of PATH. */
  readonly program?: string | undefined;
}

/** A line of the program. */
interface Answer {
  readonly address?: string;
  readonly error?: string;
}

/** Settles the call that waits for a line. */
interface Waiter {
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

/**
 * A process of the program `fanouttest`: the real server, with a store in memory instead of etcd.
 *
 * ```ts
 * await using server = await TestServer.start();
 * await using client = new Client(server.address, { insecure: true });
 * await client.resource('config').put('shop/limits', '1');
 * await server.cutConnections();
 * ```
 *
 * It ends with `await using`, with `close`, and with this process.
 */
export class TestServer implements AsyncDisposable {
  readonly #program: string;
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;
  readonly #waiters: Waiter[] = [];
  readonly #ended: Promise<unknown>;
  #failure: Error | undefined;
  #address = '';

  private constructor({ resources = ['config'], program = process.env[variable] ?? '' }: TestServerOptions) {
    this.#program = program === '' ? defaultProgram : program;
    this.#process = spawn(this.#program, resources.flatMap((name) => ['--resource', name]), {
      stdio: ['pipe', 'pipe', 'inherit'],
      // In a session of its own, Ctrl-C reaches the tests only, which then end the server.
      detached: process.platform !== 'win32',
      windowsHide: true,
    });
    this.#process.on('error', (error: NodeJS.ErrnoException) => this.#fail(error.code === 'ENOENT' ? missing(this.#program, error) : error));
    this.#process.stdin.on('error', () => {}); // the end of the output tells why
    this.#lines = createInterface({ input: this.#process.stdout });
    this.#lines.on('line', (line) => this.#waiters.shift()?.resolve(JSON.parse(line) as Answer));
    this.#lines.on('close', () => this.#fail(new Error(`${this.#program} has ended`)));
    this.#ended = once(this.#process, 'close').catch(() => {}); // #fail has the error
  }

  /** start starts a server. */
  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const server = new TestServer(options);
    const { address } = await server.#answer();
    server.#address = address!;
    return server;
  }

  /** The address for clients, which need the option `insecure`. It stays the same when the server stops and starts. */
  get address(): string {
    return this.#address;
  }

  /** cutConnections cuts all connections, as a network does. Clients connect again and resume. */
  cutConnections(): Promise<void> {
    return this.#obey('cut_connections');
  }

  /** stop makes the server unreachable until `start`. */
  stop(): Promise<void> {
    return this.#obey('stop');
  }

  /** start starts the server after `stop`. Its objects and positions are those from before. */
  start(): Promise<void> {
    return this.#obey('start');
  }

  /**
   * refuse answers all requests with an error until `accept`, those of watches, too. Whether clients try again depends on
   * the code and the reason.
   */
  refuse(code: status, reason: Reason): Promise<void> {
    return this.#obey('refuse', { code: status[code], reason });
  }

  /** accept serves requests again after `refuse`. */
  accept(): Promise<void> {
    return this.#obey('accept');
  }

  /**
   * expirePositions forgets the history, so no watch can resume: each one gets an update with `replace`. Watches with
   * `everyEvent` end with the reason `POSITION_EXPIRED`.
   */
  expirePositions(): Promise<void> {
    return this.#obey('expire_positions');
  }

  /** newEpoch gives the same objects other revisions, as after etcd was restored from a backup. */
  newEpoch(): Promise<void> {
    return this.#obey('new_epoch');
  }

  /**
   * stopEtcd makes etcd unreachable for the server until `startEtcd`. Writes and reads fail with the reason
   * `STORE_UNAVAILABLE`, and copies become stale.
   */
  stopEtcd(): Promise<void> {
    return this.#obey('stop_etcd');
  }

  /** startEtcd makes etcd reachable again. */
  startEtcd(): Promise<void> {
    return this.#obey('start_etcd');
  }

  /** close ends the server for good. */
  async close(): Promise<void> {
    this.#failure ??= new Error('the server is closed');
    this.#process.stdin.end();
    await this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #obey(command: string, details: Readonly<Record<string, string>> = {}): Promise<void> {
    if (this.#failure) throw this.#failure;
    this.#process.stdin.write(`${JSON.stringify({ command, ...details })}\n`);
    const { error } = await this.#answer();
    if (error !== undefined) throw new Error(error);
  }

  /** #answer waits for the next line. The program answers in the order of the commands. */
  #answer(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#failure) reject(this.#failure);
      else this.#waiters.push({ resolve, reject });
    });
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const waiter of this.#waiters.splice(0)) waiter.reject(this.#failure);
  }
}

function missing(program: string, cause: Error): Error {
  return new Error(
    `there is no program '${program}': install ${defaultProgram}, which is in the archives of fanoutd's releases, or name it ` +
      `with the option 'program' or the environment variable ${variable}`,
    { cause },
  );
}
