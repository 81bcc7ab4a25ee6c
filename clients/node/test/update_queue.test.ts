import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Update } from '../src/assembler.js';
import { UpdateQueue } from '../src/update_queue.js';

const never = new AbortController().signal;
const update = (revision: bigint, keys: string[] = []): Update => ({
  events: keys.map((key) => ({ type: 'deleted', object: { key } as never, revision })),
  replace: false,
  delta: false,
  position: { epoch: 'e', revision },
  asOf: 0,
});

void test('bookmarks that wait are replaced by later ones', async () => {
  const queue = new UpdateQueue();
  queue.push(update(1n, ['a']), 10);
  for (let n = 2n; n < 100_000n; n++) assert.ok(queue.push(update(n), 10));
  assert.equal((await queue.take(never)).position.revision, 1n);
  assert.equal((await queue.take(never)).position.revision, 99_999n);
});

void test('the writer waits until everything is taken', async () => {
  const queue = new UpdateQueue();
  assert.equal(queue.push(update(1n, ['a']), 200 << 10), true);
  assert.equal(queue.push(update(2n, ['a']), 200 << 10), false);
  let room = false;
  const waiting = queue.room(never).then(() => (room = true));
  await queue.take(never);
  await Promise.resolve();
  assert.equal(room, false);
  await queue.take(never);
  await waiting;
});

void test('the reader gets what waits, then the error', async () => {
  const queue = new UpdateQueue();
  queue.push(update(1n), 10);
  queue.end(new Error('over'));
  assert.equal((await queue.take(never)).position.revision, 1n);
  await assert.rejects(queue.take(never), /over/);
});
