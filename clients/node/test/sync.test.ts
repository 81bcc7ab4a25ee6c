// What waiting for an informer waits for.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Client, textOf } from '../src/index.js';
import { answered, Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');
await answered(() => config.put('a', '1'));
await config.put('b', '1');

void test('a handler that is added later gets its objects before the wait ends', { timeout: 300_000 }, async () => {
  await using informer = config.informer();
  await informer.start().waitForSync();
  const added: string[] = [];
  const slow = async ({ key }: { key: string }) => {
    await setImmediate();
    added.push(key);
  };
  informer.addHandler({ add: slow });
  await informer.waitForSync();
  assert.deepEqual(added.sort(), ['a', 'b']);
  added.length = 0;
  await informer.addHandler({ add: slow }).synced;
  assert.deepEqual(added.sort(), ['a', 'b']);
});

void test('one that was removed does not delay the others', { timeout: 300_000 }, async () => {
  await using informer = config.informer();
  informer.start();
  const registration = informer.addHandler({ add: (_, { signal }) => new Promise((resolve) => { signal.addEventListener('abort', () => resolve()); }) });
  const synced = informer.waitForSync();
  await once(informer, 'change');
  registration.remove();
  await synced;
  await assert.rejects(registration.synced, /the handler was removed/);
});

void test('it fails if the informer was not started or ends', { timeout: 300_000 }, async () => {
  const informer = config.informer();
  await assert.rejects(informer.waitForSync(), /the informer was not started/);
  await assert.rejects(informer.waitForState(), /the informer was not started/);
  informer.start();
  const { synced } = informer.addHandler({ add: (_, { signal }) => new Promise((resolve) => { signal.addEventListener('abort', () => resolve()); }) });
  const waiting = informer.waitForSync();
  await once(informer, 'change');
  await Promise.all([informer.close(), assert.rejects(waiting, { reason: 'CLIENT_CLOSED' }), assert.rejects(synced, { reason: 'CLIENT_CLOSED' })]);
});

void test('it takes a timeout and a signal', { timeout: 300_000 }, async () => {
  await using informer = config.informer();
  informer.addHandler({ add: (_, { signal }) => new Promise((resolve) => { signal.addEventListener('abort', () => resolve()); }) });
  const changed = once(informer.start(), 'change');
  await assert.rejects(informer.waitForSync({ timeout: 0 }), { codeName: 'DEADLINE_EXCEEDED', message: /there is no state/ });
  await changed;
  await assert.rejects(informer.waitForSync({ timeout: 1 }), { codeName: 'DEADLINE_EXCEEDED', message: /a handler was not called for each object/ });
  const end = new AbortController();
  const waiting = informer.waitForState({ signal: end.signal });
  end.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
});

void test('a step of the clock changes nothing', { timeout: 300_000 }, async (t) => {
  const { now } = Date;
  t.after(() => (Date.now = now));
  for (const step of [-3_600_000, 3_600_000]) {
    Date.now = now;
    const first = config.informer({ prefix: 'clock', bookmarkInterval: 3_600_000, decode: textOf }).start();
    Date.now = () => now() + step;
    await first.waitForSync();
    Date.now = now;
    const joined = config.informer({ prefix: 'clock', bookmarkInterval: 3_600_000, decode: textOf }).start();
    Date.now = () => now() + step;
    await joined.waitForSync();
    Date.now = () => now() + 10 * step;
    assert.equal(first.stale, false);
    assert.equal(joined.stale, false);
    await first.close();
    await joined.close();
  }
});
