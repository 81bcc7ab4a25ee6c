// A real server with an embedded etcd.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { on, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FanoutError, type Informer } from '../src/index.js';

/** The program, which `make test-node` builds. */
export const program = process.env.FANOUTD ?? '../../bin/fanoutd';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** A server on a free port of the loopback interface, with a temporary folder. */
export class Fanoutd {
  readonly folder = mkdtempSync(join(tmpdir(), 'fanoutd-'));
  #port = 0;
  #process: ChildProcess | undefined;

  static async start(...flags: string[]): Promise<Fanoutd> {
    const server = new Fanoutd();
    server.#port = await freePort();
    server.start(...flags);
    return server;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** start starts the server, again with the same data. Requests are retried until it is ready. */
  start(...flags: string[]): void {
    this.#process = spawn(
      program,
      ['--listen', this.address, '--admin-listen', '', '--data-dir', join(this.folder, 'data'), '--drain-period', '0s', ...flags],
      { stdio: ['ignore', 'ignore', 'ignore'] },
    );
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    if (process?.exitCode !== null) return;
    process.kill(signal);
    await once(process, 'exit');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** answered repeats a request until the server answers it. */
export async function answered<T>(request: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof FanoutError) || error.codeName !== 'UNAVAILABLE') throw error;
    }
  }
}

/** warned waits for a warning of the process whose message has a text. */
export async function warned(text: string): Promise<void> {
  for await (const [warning] of on(process, 'warning') as AsyncIterable<[Error]>) if (warning.message.includes(text)) return;
}

/** until waits until an informer has a value. */
export async function until<T>(informer: Informer<T>, key: string, value: T): Promise<void> {
  if (informer.get(key)?.value === value) return;
  for await (const _ of on(informer, 'change')) if (informer.get(key)?.value === value) return;
}

/** run runs a program and returns its output. */
export function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8' });
}
