// Objects that a handler has rejected. What an event costs does not depend on their number.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, jsonDecoder } from '../src/index.js';
import { answered, Fanoutd, until } from './fanoutd.js';
import { FollowedCopy } from './followed_copy.js';

const rejected = 5000;

// Counts the entries of maps and sets that are visited while a function runs.
async function visited(run: () => Promise<void>): Promise<number> {
  let count = 0;
  const prototypes = [new Map().entries(), new Set().values()].map((i) => Object.getPrototypeOf(i) as { next: () => unknown });
  const originals = prototypes.map(({ next }) => next);
  for (const [i, prototype] of prototypes.entries()) {
    prototype.next = function () {
      count++;
      return originals[i]!.call(this);
    };
  }
  try {
    await run();
  } finally {
    for (const [i, prototype] of prototypes.entries()) prototype.next = originals[i]!;
  }
  return count;
}

void test('a handler visits few of many rejected objects for an event', async () => {
  const attempts = new Map<string, number>();
  const copy = new FollowedCopy({
    add: ({ key }) => {
      attempts.set(key, (attempts.get(key) ?? 0) + 1);
      if (key !== 'good') throw new Error('rejected');
    },
  });
  copy.add(...Array.from({ length: rejected }, (_, n) => `bad/${n}`));
  await copy.handled();
  assert.equal(copy.loop.failing.size, rejected);
  const count = await visited(async () => {
    copy.add('good');
    await copy.handled();
  });
  assert.equal(attempts.get('good'), 1);
  // Some may be due for their second attempt meanwhile.
  const again = Array.from(attempts.values()).reduce((sum, n) => sum + n - 1, 0);
  assert.ok(count <= 100 + 10 * again, `${count} entries were visited, and ${again} were offered again`);
  copy.loop.remove();
  await copy.loop.done;
});

void test('the delays of a handler begin again when the object changes', async () => {
  let changes = 3;
  const copy: FollowedCopy = new FollowedCopy({
    add: () => {
      if (changes-- > 0) copy.add('a'); // during a call that fails
      throw new Error('rejected');
    },
  });
  copy.add('a');
  await copy.handled();
  for (let n = 0; n < 3; n++) {
    copy.add('a'); // between two calls
    await copy.handled();
  }
  copy.loop.remove(); // it would go on for ever
  await copy.loop.done;
  assert.equal(copy.delays.length, 7);
  assert.ok(Math.max(...copy.delays) <= 1000, `the delays are ${copy.delays.join()}`);
});

void test('an informer visits few of many rejected objects for an event', { timeout: 300_000 }, async () => {
  await using server = await Fanoutd.start();
  await using client = new Client(server.address, { insecure: true });
  const config = client.resource('config');
  await answered(() => config.count());
  const many = 1000;
  for (let n = 0; n < many; n += 50) {
    const numbers = Array.from({ length: 50 }, (_, i) => n + i);
    await config.transact(numbers.map((i) => ({ put: { key: `undecoded/${i}`, value: '{' } })));
    await config.transact(numbers.map((i) => ({ put: { key: `rejected/${i}`, value: '1' } })));
  }
  await using informer = config.informer({ decode: jsonDecoder<number>() });
  informer.addHandler({ add: ({ value }) => { if (value === 1) throw new Error('rejected'); } });
  await informer.start().waitForSync();
  const { size } = informer;
  assert.equal(size, many);
  const writes = 20;
  const count = await visited(async () => {
    for (let n = 0; n < writes; n++) {
      await config.put('good', `${n + 2}`);
      await until(informer, 'good', n + 2);
    }
  });
  assert.ok(count < writes * many / 2, `${count} entries were visited for ${writes} events`);
});
