// A signal may be shared.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { after, test } from 'node:test';
import { pause } from '../src/backoff.js';
import { Client } from '../src/index.js';
import { answered, Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');
await answered(() => config.count());

// Node.js warns if a signal has more than ten listeners.
void test('all watches, informers and waits have one listener', { timeout: 300_000 }, async () => {
  const { signal } = new AbortController();
  const listeners = () => getEventListeners(signal, 'abort').length;
  const watches = Array.from({ length: 12 }, (_, n) => config.watch({ prefix: `${n}`, signal }));
  const informers = Array.from({ length: 12 }, (_, n) => config.informer({ prefix: `${n}`, signal }).start());
  await Promise.all([...watches.map((watch) => watch.next()), ...informers.map((informer) => informer.waitForSync({ signal }))]);
  assert.equal(listeners(), 1);
  const waiting = watches.map((watch) => watch.next());
  const reading = watches.map(() => config.get('none', { signal }).catch(() => {}));
  const pausing = watches.map(() => pause(1, signal));
  assert.equal(listeners(), 1);
  await Promise.all([...reading, ...pausing]);
  await Promise.all([...watches, ...informers].map((running) => running.close()));
  await Promise.all(waiting);
  assert.equal(listeners(), 0);
});
