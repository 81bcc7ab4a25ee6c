// The client with a real server.

import assert from 'node:assert/strict';
import { on, once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Client, FanoutError, jsonDecoder, type Item, type Update } from '../src/index.js';
import { Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');

// The server may not be ready yet.
for (let ready = false; !ready; ) {
  try {
    await config.count();
    ready = true;
  } catch (error) {
    if (!(error instanceof FanoutError)) throw error;
  }
}

/** follow applies the updates of a watch to a copy until a condition holds. */
async function follow(updates: AsyncIterable<Update>, until: (copy: Map<string, unknown>) => boolean): Promise<Update | undefined> {
  const copy = new Map<string, unknown>();
  for await (const update of updates) {
    if (update.replace) copy.clear();
    for (const { type, object } of update.events) {
      if (type === 'deleted') copy.delete(object.key);
      else copy.set(object.key, object.value);
    }
    if (until(copy)) return update;
  }
  return undefined;
}

void test('reads and writes', async () => {
  const { revision } = await config.put('rw/a', 'text', { contentType: 'text/plain', labels: { team: 'x' } });
  await config.put('rw/b', new Uint8Array([0, 255]));
  const { object } = await config.get('rw/a');
  assert.equal(object.value, 'text');
  assert.equal(object.modRevision, revision);
  assert.deepEqual({ ...object.labels }, { team: 'x' });
  assert.deepEqual((await config.get('rw/b')).object.value, new Uint8Array([0, 255]));
  assert.deepEqual((await config.list({ prefix: 'rw', pageSize: 1 })).objects.map(({ key }) => key), ['rw/a', 'rw/b']);
  assert.equal((await config.count({ prefix: 'rw', labelSelector: 'team=x' })).count, 1n);
  assert.equal((await config.get('rw/a', { consistency: { exactRevision: revision } })).position.revision, revision);
  const { results } = await config.transact([
    { check: { key: 'rw/a', modRevision: revision } },
    { delete: { key: 'rw/b', returnDeleted: true } },
    { put: { key: 'rw/c', value: 'new', ttl: 60_000 } },
  ]);
  assert.deepEqual(results.map(({ deleted }) => deleted), [false, true, false]);
  assert.deepEqual(results[1]?.object?.value, new Uint8Array([0, 255]));
  const { ttl } = await config.get('rw/c');
  assert.ok(ttl !== undefined && ttl <= 60_000);
  assert.equal((await config.delete('rw/c')).deleted, true);
  assert.equal((await config.delete('rw/c')).deleted, false);
});

void test('errors have reasons', async () => {
  await assert.rejects(config.get('no/such'), { name: 'FanoutError', reason: 'KEY_NOT_FOUND', codeName: 'NOT_FOUND' });
  await assert.rejects(client.resource('nothing').get('a'), { reason: 'UNKNOWN_RESOURCE' });
  await assert.rejects(config.put('/wrong', ''), (error: FanoutError) => {
    assert.equal(error.reason, 'INVALID_REQUEST');
    assert.equal(error.violations[0]?.field, 'put.key');
    return true;
  });
  await config.put('errors/a', '1');
  await assert.rejects(config.put('errors/a', '2', { ifModRevision: 0n }), { reason: 'PRECONDITION_FAILED' });
  await assert.rejects(config.get('a', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(config.get('a', { timeout: -1 }), { codeName: 'DEADLINE_EXCEEDED' });
});

void test('concurrent updates are all applied', async () => {
  const add = () => config.update('count', (current) => String(Number(current?.value ?? 0) + 1));
  await Promise.all(Array.from({ length: 10 }, add));
  assert.equal((await config.get('count')).object.value, '10');
  assert.equal(await config.update('count', () => undefined), undefined);
});

void test('a watch ends with the reason of its signal', async () => {
  const end = new AbortController();
  const reason = new Error('enough');
  await assert.rejects(async () => {
    for await (const { position } of config.watch({ prefix: 'ends', signal: end.signal })) {
      assert.ok(position.revision > 0n);
      end.abort(reason);
    }
  }, reason);
});

void test('a watch resumes at its position', async () => {
  await config.put('resume/a', '1');
  const { position } = (await follow(config.watch({ prefix: 'resume' }), (copy) => copy.has('resume/a')))!;
  await config.put('resume/b', '2');
  for await (const { events, replace } of config.watch({ prefix: 'resume', after: position })) {
    if (events.length === 0) continue;
    assert.equal(replace, false);
    assert.deepEqual(events.map(({ type, object }) => [type, object.key]), [['added', 'resume/b']]);
    break;
  }
});

void test('an informer survives a restart of the server, and a handler that rejects', async () => {
  await config.put('informer/a', '{"n": 1}');
  const seen: string[] = [];
  let rejections = 1;
  const path = join(server.folder, 'state');
  const open = () =>
    config.informer({ prefix: 'informer', decode: jsonDecoder<{ n: number }>(), bookmarkInterval: 1000, lastKnownGood: { path, maxBytes: 1 << 20 } });
  {
    await using informer = open();
    informer.addHandler({
      add: ({ key, value }) => void seen.push(`add ${key} ${value.n}`),
      update: (old, { key, value }) => {
        if (rejections-- > 0) throw new Error('not now');
        seen.push(`update ${key} ${old.value.n} ${value.n}`);
      },
      delete: ({ key }) => void seen.push(`delete ${key}`),
    });
    await informer.start().waitForSync();
    assert.equal(informer.get('informer/a')?.value.n, 1);
    assert.equal(informer.stale, false);
    assert.deepEqual(seen, ['add informer/a 1']);

    await server.stop();
    server.start();
    for (let written = false; !written; ) {
      try {
        await config.put('informer/a', '{"n": 2}');
        written = true;
      } catch (error) {
        assert.ok(error instanceof FanoutError);
      }
    }
    const invalid = once(informer, 'invalid') as Promise<[Item<unknown>, Error, undefined]>; // perhaps before put returns
    await config.put('informer/b', 'no JSON');
    const [object, , old] = await invalid;
    assert.equal(object.key, 'informer/b');
    assert.equal(old, undefined);
    await config.delete('informer/b');
    const { revision } = await config.put('informer/c', '{"n": 3}');
    for await (const _ of on(informer, 'change')) if (informer.position!.revision >= revision && seen.length === 3) break;
    assert.deepEqual(seen.sort(), ['add informer/a 1', 'add informer/c 3', 'update informer/a 1 2']);
  }
  await using again = open();
  await again.start().waitForState();
  assert.deepEqual(again.list('informer').map(({ value }) => value.n), [2, 3]);
  await again.waitForSync();
});

void test('the signal of an informer closes it', async () => {
  await config.put('signal/a', '1');
  const end = new AbortController();
  const path = join(server.folder, 'signal');
  const informer = config.informer({ prefix: 'signal', signal: end.signal, lastKnownGood: { path, maxBytes: 1 << 20 } });
  informer.on('error', (error) => assert.fail(error));
  let handled = false;
  const started = new Promise<void>((resolve) => {
    informer.addHandler({
      add: async () => {
        resolve();
        await setTimeout(100);
        handled = true;
      },
    });
  });
  const synced = informer.start().waitForSync();
  await started;
  const reason = new Error('enough');
  end.abort(reason);
  await Promise.all([assert.rejects(synced, reason), once(informer, 'close')]);
  assert.ok(handled); // the last call has ended
  assert.ok(existsSync(path)); // the state is saved
  await assert.rejects(informer.waitForState({ signal: AbortSignal.timeout(300_000) }).then(() => informer.waitForSync()), reason);
  await informer.addHandler({ add: () => assert.fail('called') }).done;

  const late = config.informer({ prefix: 'signal', signal: end.signal }).start();
  await assert.rejects(late.waitForSync(), reason);
  await late.close();
});

void test('a watch that nobody reads holds little memory, and gets the difference later', async () => {
  const value = 'x'.repeat(100_000);
  const watch = config.watch({ prefix: 'slow' });
  await watch.next();
  let last = 0n;
  for (let n = 0; n < 50; n++) last = (await config.put('slow/a', `${n}${value}`)).revision;
  for await (const { position } of watch) if (position.revision >= last) break;
  assert.equal((await config.get('slow/a')).object.modRevision, last);
});
