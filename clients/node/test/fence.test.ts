// Whatever a function of the user does, the copies, the other functions and the loops go on.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Client, jsonDecoder, textOf, type Informer } from '../src/index.js';
import { answered, Fanoutd, until, warned } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');
await answered(() => config.count());

const broken = (): never => {
  throw new Error('the listener is broken');
};

void test('a listener that throws loses nothing of a transaction', { timeout: 300_000 }, async () => {
  await using informer = config.informer({ prefix: 'invalid', decode: jsonDecoder() });
  await using other = config.informer({ prefix: 'invalid', decode: jsonDecoder() });
  informer.on('invalid', broken);
  await informer.start().waitForSync();
  await other.start().waitForSync();
  const logged = warned("a listener of the event invalid has failed: the listener is broken");
  await config.transact([{ put: { key: 'invalid/a', value: '{' } }, { put: { key: 'invalid/b', value: '2' } }]);
  await until(other, 'invalid/b', 2);
  await until(informer, 'invalid/b', 2);
  await logged;
});

void test('a listener that throws or rejects stops neither handlers nor other listeners', { timeout: 300_000 }, async () => {
  const path = join(server.folder, 'fence');
  writeFileSync(path, 'damaged');
  await using informer = config.informer({ prefix: 'listeners', decode: textOf, lastKnownGood: { path, maxBytes: 1 << 20 } });
  const seen = new Set<string>();
  const events = ['sync', 'change', 'interruption', 'warning'] as const;
  for (const event of events) {
    informer.on(event, broken);
    // eslint-disable-next-line @typescript-eslint/no-misused-promises -- that is the test
    informer.on(event, () => Promise.reject(new Error('the listener is broken, too')));
    informer.on(event, () => void seen.add(event));
  }
  const added: string[] = [];
  informer.addHandler({ add: ({ key }) => void added.push(key) });
  await informer.start().waitForSync();
  const interrupted = once(informer, 'interruption');
  await server.stop();
  server.start();
  await interrupted;
  await answered(() => config.put('listeners/a', '1'));
  await until(informer, 'listeners/a', '1');
  await informer.addHandler({}).synced;
  while (added.length === 0) await once(informer, 'change');
  assert.deepEqual(added, ['listeners/a']);
  assert.deepEqual([...seen].sort(), [...events].sort());
});

void test('a watch goes on when onInterruption throws', { timeout: 300_000 }, async () => {
  await answered(() => config.put('interrupted/a', '1'));
  const watch = config.watch({ prefix: 'interrupted', onInterruption: broken });
  await watch.next();
  const logged = warned('onInterruption has failed: the listener is broken');
  await server.stop();
  server.start();
  const { revision } = await answered(() => config.put('interrupted/a', '2'));
  await logged;
  for await (const { position } of watch) if (position.revision >= revision) break;
});

void test('a handler may throw anything', { timeout: 300_000 }, async () => {
  await using informer = config.informer({ prefix: 'anything', decode: textOf });
  const added: string[] = [];
  informer.addHandler({ add: () => { throw Object.create(null); } });
  informer.addHandler({ add: () => Promise.reject(Object.assign(new Error(), { message: Symbol('no text') })) });
  informer.addHandler({ add: ({ key }) => void added.push(key) });
  await informer.start().waitForSync();
  await answered(() => config.put('anything/a', '1'));
  await until(informer, 'anything/a', '1');
  await answered(() => config.put('anything/b', '1'));
  await until(informer, 'anything/b', '1');
  await informer.addHandler({}).synced;
  await informer.waitForSync();
  assert.deepEqual(added, ['anything/a', 'anything/b']);
});

void test('a decoder may throw anything, and gets one state', { timeout: 300_000 }, async () => {
  await answered(() => config.put('decoder/a', '1'));
  await config.put('decoder/b', '1');
  const seen: (string | undefined)[] = [];
  const informer: Informer<string> = config.informer({
    prefix: 'decoder',
    decode: (object) => {
      const text = textOf(object);
      if (text === 'bad') throw Object.create(null);
      seen.push(`${informer.get('decoder/a')?.value} ${informer.get('decoder/b')?.value}`);
      return text;
    },
  });
  await using _ = informer;
  await informer.start().waitForSync();
  await config.transact([{ put: { key: 'decoder/a', value: '2' } }, { put: { key: 'decoder/b', value: '2' } }]);
  await until(informer, 'decoder/b', '2');
  assert.deepEqual(seen, ['undefined undefined', 'undefined undefined', '1 1', '1 1']);
  await config.transact([{ put: { key: 'decoder/a', value: 'bad' } }, { put: { key: 'decoder/b', value: '3' } }]);
  await until(informer, 'decoder/b', '3');
  assert.equal(informer.get('decoder/a')?.value, '2');
  assert.match(informer.get('decoder/a')!.invalid!.message, /a value that has no text/);
});

void test('a promise is not a value', { timeout: 300_000 }, async () => {
  await answered(() => config.put('promise/a', '1'));
  // The compiler refuses such a decoder; programs without types have it.
  const decode = (() => Promise.reject(new Error('later'))) as unknown as () => string;
  await using informer = config.informer({ prefix: 'promise', decode });
  const invalid = once(informer, 'invalid') as Promise<unknown[]>;
  await informer.start().waitForSync();
  const [, error] = await invalid;
  assert.match((error as Error).message, /decode has returned a promise/);
  assert.equal(informer.get('promise/a'), undefined);
});

void test('a listener of the event error that throws delays no other event', { timeout: 300_000 }, async () => {
  const informer = client.resource('nothing').informer();
  informer.on('error', broken);
  const closed = new Promise<void>((resolve) => void informer.once('close', resolve));
  await assert.rejects(informer.start().waitForSync(), { reason: 'UNKNOWN_RESOURCE' });
  await closed;
});

void test('a watch goes on when a token never comes', { timeout: 300_000 }, async () => {
  let calls = 0;
  const token = () => (calls++ === 0 ? new Promise<string>(() => {}) : Promise.resolve('any'));
  await using patient = new Client(server.address, { insecure: true, token });
  for await (const _ of patient.resource('config').watch()) break;
  assert.ok(calls > 1);
});
