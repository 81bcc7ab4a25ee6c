// What is written and read.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { Client, type Position, type Value } from '../src/index.js';
import { answered, Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const client = new Client(server.address, { insecure: true });
after(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});
const config = client.resource('config');
await answered(() => config.count());

void test('what is not a value is refused', async () => {
  const { revision } = await config.put('value', 'good');
  const wrong: unknown[] = [undefined, null, 7, 7n, true, {}, [1], new Date(), new ArrayBuffer(1), new Uint16Array(1), Symbol('x'), () => 'x'];
  for (const bad of wrong) {
    const value = bad as Value;
    const refusal = { name: 'TypeError', message: /the value of value must be a string or a Uint8Array, but it is/ };
    await assert.rejects(config.put('value', value), refusal);
    await assert.rejects(config.transact([{ put: { key: 'other', value: '1' } }, { put: { key: 'value', value } }]), refusal);
    if (bad !== undefined) await assert.rejects(config.update('value', () => value), refusal);
  }
  await assert.rejects(config.transact([{} as never]), { name: 'TypeError' });
  assert.equal((await config.list()).position.revision, revision); // nothing was sent
  for (const good of ['', new Uint8Array(), Buffer.from('x'), runInNewContext('new Uint8Array([1])') as Uint8Array]) {
    await config.put('value', good);
  }
});

void test('an update keeps what it does not change', async () => {
  await config.put('kept', '1', { contentType: 'text/plain', labels: { team: 'x' }, ttl: 3_600_000 });
  await config.update('kept', ({ value } = {} as never) => `${String(value)}2`);
  const { object, ttl } = await config.get('kept');
  assert.equal(object.value, '12');
  assert.equal(object.contentType, 'text/plain');
  assert.deepEqual({ ...object.labels }, { team: 'x' });
  assert.ok(ttl !== undefined);
  // An option that is undefined is not given.
  await config.update('kept', () => '3', { contentType: undefined, labels: { team: 'y' }, keepTTL: false });
  const changed = await config.get('kept');
  assert.equal(changed.object.contentType, 'text/plain');
  assert.deepEqual({ ...changed.object.labels }, { team: 'y' });
  assert.equal(changed.ttl, undefined);
});

void test('the timeout of an update is for all attempts', { timeout: 300_000 }, async () => {
  let attempts = 0;
  const contended = config.update('contended', async () => {
    await config.put('contended', `${attempts++}`);
    return 'never written';
  }, { timeout: 1000 });
  await assert.rejects(contended, { codeName: 'DEADLINE_EXCEEDED' });
  assert.ok(attempts > 1);
  await assert.rejects(config.update('contended', () => new Promise(() => {}), { timeout: 10 }), { codeName: 'DEADLINE_EXCEEDED' });
});

void test('results can be shown as JSON', { timeout: 300_000 }, async () => {
  const shown = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;
  const { revision } = await config.put('json/a', 'text', { labels: { team: 'x' } });
  await config.put('json/b', new Uint8Array([0, 255]));
  const { object } = await config.get('json/a');
  const json = {
    key: 'json/a', value: 'text', contentType: 'text/plain; charset=utf-8', labels: { team: 'x' }, opaque: false,
    createRevision: `${revision}`, modRevision: `${revision}`, version: '1', hasTTL: false,
  };
  assert.deepEqual(shown(object), { ...json, contentType: object.contentType });
  const { data, value } = shown((await config.get('json/b')).object) as Record<string, unknown>;
  assert.deepEqual({ data, value }, { data: 'AP8=', value: undefined });
  assert.deepEqual(shown(await config.delete('json/none')), { revision: `${(await config.list()).position.revision}`, deleted: false });
  for (const result of [
    await config.list(), await config.count(), await config.put('json/c', ''), await config.transact([{ delete: { key: 'json/c' } }]),
    (await config.pages({ pageSize: 1 }).next()).value, await config.get('json/b'),
  ]) shown(result);
  // A position that was JSON is a position.
  const watch = config.watch({ prefix: 'json' });
  const { value: update } = await watch.next();
  await watch.close();
  const { events, position } = shown(update) as { events: unknown[]; position: { epoch: string; revision: string } };
  assert.equal(events.length, 2);
  assert.deepEqual({ ...watch.position }, { epoch: position.epoch, revision: BigInt(position.revision) } satisfies Position);
  await config.put('json/d', '');
  for await (const { events: later, replace } of config.watch({ prefix: 'json', after: position })) {
    if (later.length === 0) continue;
    assert.equal(replace, false);
    assert.deepEqual(later.map(({ object: { key } }) => key), ['json/d']);
    break;
  }
});
