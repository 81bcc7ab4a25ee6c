// An update ends at once when its signal is aborted and when the client is closed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { Client, type Observer } from '../src/index.js';
import { refusal, ScriptedServer } from './scripted.js';

const enough = new Error('enough');

/** An update that a test ends early. */
class Ending implements AsyncDisposable {
  readonly #how: 'signal' | 'close';
  readonly #abort = new AbortController();
  readonly #client: Client;

  constructor(how: 'signal' | 'close', server: ScriptedServer, observer: Observer = {}) {
    this.#how = how;
    this.#client = new Client(server.address, { observer });
  }

  readonly end = (): void => {
    if (this.#how === 'signal') this.#abort.abort(enough);
    else void this.#client.close();
  };

  /** update fails as it should if it is ended before `change` has returned and before its next attempt. */
  async update(change: () => string | Promise<string>): Promise<void> {
    const config = this.#client.resource('config');
    const updated = config.update('a', change, { signal: this.#abort.signal, timeout: 3_600_000 });
    await assert.rejects(updated, this.#how === 'signal' ? enough : { reason: 'CLIENT_CLOSED' });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#client.close();
  }
}

for (const how of ['signal', 'close'] as const) {
  void test(`${how} ends an update whose function does not return`, { timeout: 300_000 }, async () => {
    await using server = await ScriptedServer.start({ get: () => ({ object: { key: 'a' } }) });
    await using ending = new Ending(how, server);
    await ending.update(() => {
      ending.end();
      return new Promise(() => {});
    });
  });

  void test(`${how} ends the pause of an update`, { timeout: 300_000 }, async (t) => {
    await using server = await ScriptedServer.start({
      get: () => ({ object: { key: 'a' } }),
      put: () => {
        throw refusal(status.FAILED_PRECONDITION, 'PRECONDITION_FAILED');
      },
    });
    const observer = {
      request: ({ method }: { method: string }) => {
        if (method === 'Put') void setImmediate().then(ending.end); // the pause has begun
      },
    };
    await using ending = new Ending(how, server, observer);
    await ending.update(() => {
      t.mock.method(Math, 'random', () => 1e5); // the first delay is 500 s
      return 'x';
    });
  });
}
