// Copies stay equal to the server's state, whatever happens to the server.

import assert from 'node:assert/strict';
import { on } from 'node:events';
import { after, test } from 'node:test';
import { Client, FanoutError, textOf, type Informer, type Operation, type StoredObject } from '../src/index.js';
import { Fanoutd } from './fanoutd.js';

const rounds = 5;
const writes = 100;
const keys = 20;

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');

const pick = (n: number) => Math.floor(Math.random() * n);

/** write makes a random change, again and again until the server has answered. */
async function write(n: number): Promise<bigint> {
  const changed = new Set(Array.from({ length: 1 + pick(4) }, () => `random/${pick(3)}/${pick(keys)}`));
  const operations = Array.from(changed, (key): Operation => (pick(3) === 0 ? { delete: { key } } : { put: { key, value: `${n}` } }));
  for (;;) {
    try {
      return (await config.transact(operations)).revision;
    } catch (error) {
      if (!(error instanceof FanoutError) || error.codeName !== 'UNAVAILABLE') throw error;
    }
  }
}

const contents = (objects: Iterable<StoredObject>) =>
  Array.from(objects, (o) => `${o.key} ${o.modRevision} ${textOf(o)}`).sort();

/** reach waits until a copy has a revision. */
async function reach(informer: Informer<StoredObject>, revision: bigint): Promise<void> {
  if (informer.position && informer.position.revision >= revision) return;
  for await (const _ of on(informer, 'change')) if (informer.position!.revision >= revision) return;
}

void test('copies equal a list after each restart', async () => {
  const options = [{ prefix: 'random' }, { prefix: 'random/1' }, { prefix: 'random', latest: true }];
  await write(0);
  const informers = options.map((o) => config.informer({ ...o, bookmarkInterval: 1000 }).start());
  const handled = informers.map((informer) => {
    const copy = new Map<string, StoredObject>();
    informer.addHandler({
      add: ({ key, object }) => {
        assert.ok(!copy.has(key));
        copy.set(key, object);
      },
      update: async (old, { key, object }) => {
        assert.equal(copy.get(key), old.object);
        if (pick(20) === 0) throw new Error('not this time');
        await Promise.resolve();
        copy.set(key, object);
      },
      delete: ({ key }) => void copy.delete(key),
    });
    return copy;
  });
  let n = 1;
  for (let round = 0; round < rounds; round++) {
    const restart = (async () => {
      await server.stop(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM');
      server.start();
    })();
    let last = 0n;
    for (let i = 0; i < writes; i++) last = await write(n++);
    await restart;
    for (const [i, informer] of informers.entries()) {
      await reach(informer, last);
      const { objects } = await config.list({ ...options[i], consistency: { exactRevision: informer.position!.revision } });
      assert.deepEqual(contents(Array.from(informer, ({ object }) => object)), contents(objects));
    }
  }
  // In the end, the handlers have everything, too: what they rejected is offered again.
  for (const [i, informer] of informers.entries()) {
    const want = contents(Array.from(informer, ({ object }) => object));
    const has = () => contents(handled[i]!.values()).join() === want.join();
    // Bookmarks come while nothing happens.
    if (!has()) for await (const _ of on(informer, 'change')) if (has()) break;
  }
});
