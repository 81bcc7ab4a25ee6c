// Informers that want the same share a watch.

import assert from 'node:assert/strict';
import { on } from 'node:events';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ConnectionPool } from '../src/connection_pool.js';
import { textOf, type Informer } from '../src/index.js';
import { lowest, sharedWatches } from '../src/informer_watch.js';
import { failedKeysOf, type Progress } from '../src/reporter.js';
import { Resource } from '../src/resource.js';
import { Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const pool = new ConnectionPool([server.address], { insecure: true });
after(async () => {
  await pool.close();
  await server[Symbol.asyncDispose]();
});
const config = new Resource(pool, 'config');

async function until<T>(informer: Informer<T>, key: string, value: T): Promise<void> {
  if (informer.get(key)?.value === value) return;
  for await (const _ of on(informer, 'change')) if (informer.get(key)?.value === value) return;
}

void test('equal informers have one watch', async () => {
  for (;;) {
    try {
      await config.put('one/a', '1');
      break;
    } catch {
      // the server is not ready
    }
  }
  const first = config.informer({ prefix: 'one', decode: textOf }).start();
  await first.waitForSync();
  const added: string[] = [];
  const second = config.informer({ prefix: 'one', decode: textOf });
  second.addHandler({ add: ({ key }) => void added.push(key) });
  await second.start().waitForSync();
  const other = config.informer({ prefix: 'one', latest: true }).start();
  await other.waitForSync();
  assert.equal(sharedWatches(pool).size, 2);
  assert.equal(second.get('one/a')?.object, first.get('one/a')?.object);
  await config.put('one/b', '2');
  await until(first, 'one/b', '2');
  await until(second, 'one/b', '2');
  assert.equal(second.get('one/b')?.object, first.get('one/b')?.object);
  await first.close();
  await config.put('one/c', '3');
  await until(second, 'one/c', '3');
  assert.equal(first.get('one/c'), undefined);
  await second.close();
  await other.close();
  assert.equal(sharedWatches(pool).size, 0);
  assert.deepEqual(added, ['one/a', 'one/b', 'one/c']);
});

// Without a short watch of its own, only the next bookmark would prove that its state is current.
void test('one that joins is as fresh as one that begins', { timeout: 300_000 }, async () => {
  const first = config.informer({ prefix: 'fresh', bookmarkInterval: 3_600_000, decode: textOf }).start();
  await first.waitForSync();
  for (let n = 0; n < 20; n++) {
    await config.put('fresh/a', `${n}`);
    const joined = config.informer({ prefix: 'fresh', bookmarkInterval: 3_600_000, decode: textOf }).start();
    await joined.waitForSync();
    assert.equal(joined.get('fresh/a')?.value, `${n}`);
    assert.equal(joined.stale, false);
    await joined.close();
  }
  await first.close();
});

void test('one that joins gets an object that another one cannot decode', async () => {
  await config.put('invalid/a', '{');
  const first = config.informer({ prefix: 'invalid', decode: (o) => JSON.parse(textOf(o)) as unknown }).start();
  await first.waitForSync();
  const second = config.informer({ prefix: 'invalid', decode: textOf }).start();
  await second.waitForSync();
  assert.equal(first.get('invalid/a'), undefined);
  assert.equal(second.get('invalid/a')?.value, '{');
  await first.close();
  await second.close();
});

void test('the report of a shared watch is that of the slowest', () => {
  const at = (revision: bigint, epoch = 'e') => ({ epoch, revision });
  assert.deepEqual(lowest([{ applied: at(7n) }, { applied: at(5n) }, { applied: at(6n) }]), { applied: at(5n) });
  assert.deepEqual(lowest([{ applied: at(7n) }, { applied: undefined }]), { applied: undefined });
  assert.deepEqual(lowest([{ applied: at(7n) }, { applied: at(8n, 'f') }]), { applied: undefined });
  const failing = { applied: at(5n), attempted: at(9n), error: 'no', failed: new Set(['a', 'b']) };
  assert.deepEqual(lowest([{ applied: at(7n) }, failing]), { ...failing, attempted: at(7n) });
  const other = { ...failing, failed: new Set(['b', 'c']) };
  assert.deepEqual(lowest([failing, other]), { ...failing, failed: new Set(['a', 'b', 'c']) });
});

void test('a report names a bounded number of failed keys', () => {
  for (const { count, length, named } of [
    { count: 32, length: 3, named: true },
    { count: 33, length: 3, named: false },
    { count: 32, length: 128, named: true },
    { count: 32, length: 129, named: false },
  ]) {
    const keys = Array.from({ length: count }, (_, n) => `${n}`.padStart(length, 'k')).sort();
    assert.deepEqual(failedKeysOf({ applied: undefined, error: 'no', failed: new Set(keys) }), named ? keys : []);
  }
});

// What could not be decoded is not applied before a newer version is accepted.
void test('a version that a handler refuses after one that cannot be decoded', { timeout: 300_000 }, async () => {
  const informer = config.informer({ prefix: 'bad', decode: (o) => JSON.parse(textOf(o)) as unknown });
  informer.addHandler({
    update: (_, { value }) => {
      if (value === 'refused') throw new Error('refused');
    },
  });
  await informer.start().waitForSync();
  const good = await config.put('bad/a', '1');
  await until(informer, 'bad/a', 1);
  await config.put('bad/a', '{');
  await config.put('bad/a', '"refused"');
  const [watch] = sharedWatches(pool).values();
  assert(watch);
  const progress = async (done: (p: Progress) => boolean): Promise<Progress> => {
    for (;;) {
      const p = watch.progress();
      if (done(p)) return p;
      await setImmediate();
    }
  };
  const { applied } = await progress(({ error }) => error?.includes('refused') ?? false);
  assert.equal(applied?.revision, good.revision);
  const accepted = await config.put('bad/a', '2');
  await progress(({ applied, error }) => error === undefined && (applied?.revision ?? 0n) >= accepted.revision);
  await informer.close();
});
