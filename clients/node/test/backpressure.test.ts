// A caller that does not read delays no other watch, and misses nothing.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Client, FanoutError, textOf, type Update } from '../src/index.js';
import { UpdateQueue } from '../src/update_queue.js';
import { Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');

async function put(key: string, value: string): Promise<bigint> {
  for (;;) {
    try {
      return (await config.put(key, value)).revision;
    } catch (error) {
      if (!(error instanceof FanoutError) || error.codeName !== 'UNAVAILABLE') throw error;
    }
  }
}

// The most updates with events that wait for the reader of a watch.
let most = 0;
const waiting = new Map<UpdateQueue, number>();
// eslint-disable-next-line @typescript-eslint/unbound-method -- they are called with their queue
const { push, take } = UpdateQueue.prototype;
UpdateQueue.prototype.push = function (update, size) {
  const n = (waiting.get(this) ?? 0) + (update.events.length > 0 ? 1 : 0);
  waiting.set(this, n);
  most = Math.max(most, n);
  return push.call(this, update, size);
};
UpdateQueue.prototype.take = async function (signal) {
  const update = await take.call(this, signal);
  if (update.events.length > 0) waiting.set(this, waiting.get(this)! - 1);
  return update;
};

void test('what a slow caller does not take waits at the server', { timeout: 300_000 }, async () => {
  const value = 'x'.repeat(512 << 10);
  await put('other', '1');
  const slow = config.watch({ prefix: 'large' })[Symbol.asyncIterator]();
  const quick = config.watch({ prefix: 'large' })[Symbol.asyncIterator]();
  await slow.next();
  await quick.next();
  let last = 0n;
  for (let n = 0; n < 100; n++) {
    last = await put(`large/${n % 10}`, `${n} ${value}`);
    for (;;) {
      const { value: update } = (await quick.next()) as IteratorYieldResult<Update>;
      if (update.position.revision >= last) break;
    }
  }
  // One larger update may wait, and one may come before the server knows.
  assert.ok(most <= 3, `${most} updates waited at the same time`);
  const copy = new Map<string, string>();
  for (;;) {
    const { value: update } = (await slow.next()) as IteratorYieldResult<Update>;
    if (update.replace) copy.clear();
    for (const { object } of update.events) copy.set(object.key, textOf(object).split(' ')[0]!);
    if (update.position.revision >= last) break;
  }
  assert.deepEqual(new Map([...copy].sort()), new Map(Array.from({ length: 10 }, (_, n) => [`large/${n}`, `${n + 90}`])));
  await slow.return();
  await quick.return();
});
