// Messages and history with a real server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fromJson } from '@bufbuild/protobuf';
import { HistoryEntry_Kind, HistoryEntrySchema } from '../src/gen/fanout/v1/fanout_pb.js';
import { entryOf } from '../src/history.js';
import { Client, type HistoryEntry, type HistoryOptions, type Resource } from '../src/index.js';
import { answered, Fanoutd, program } from './fanoutd.js';

const folder = mkdtempSync(join(tmpdir(), 'history-'));
const path = (name: string) => join(folder, name);

/** token makes a token, and returns it with its line in the file of the server. */
function token(name: string): { token: string; line: string } {
  const { stdout, stderr } = spawnSync(program, ['token', 'create', name], { encoding: 'utf8' });
  return { token: stdout.trim(), line: stderr };
}

const [ada, bob] = [token('ada'), token('bob')];
writeFileSync(path('tokens'), ada.line + bob.line);
writeFileSync(path('policy'), `
rules:
- {subjects: [ada], resources: ["*"], verbs: ["*"]}
- {subjects: [bob], resources: ["*"], verbs: [get, put]}
- {subjects: [bob], resources: [config], prefixes: [team], verbs: [history]}
`);
writeFileSync(path('rules'), `
checks:
- keys: [flags/*]
  schema:
    properties: {percent: {type: integer, maximum: 100}}
  rules:
  - {rule: "self != null", message: flags stay, deletes: true}
`);
writeFileSync(path('config'), `
token-file: ${path('tokens')}
policy-file: ${path('policy')}
resources:
- {name: config, history: {}, validation-file: ${path('rules')}}
- {name: forgetful}
`);
const server = await Fanoutd.start('--config', path('config'));
const client = new Client(server.address, { token: ada.token });
const other = new Client(server.address, { token: bob.token });
after(async () => {
  await Promise.all([client.close(), other.close()]);
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});
const config = client.resource('config');
await answered(() => config.count());

/** entries returns a history. */
async function entries(of: Resource, options: HistoryOptions): Promise<HistoryEntry[]> {
  const all: HistoryEntry[] = [];
  for await (const entry of of.history(options)) all.push(entry);
  return all;
}

void test('only kinds of newer servers are unknown', () => {
  const kindOf = (kind: number) => entryOf(fromJson(HistoryEntrySchema, { kind })).kind;
  for (const [name, kind] of Object.entries(HistoryEntry_Kind)) {
    if (typeof kind !== 'string' && name !== 'UNSPECIFIED') assert.equal(kindOf(kind), name.toLowerCase());
  }
  assert.equal(kindOf(99), 'unknown');
});

void test('each write has its message', async () => {
  const { revision } = await config.put('h/a', '1', { message: 'put' });
  await config.update('h/a', () => '2', { message: 'update' });
  const both = await config.transact([{ put: { key: 'h/a', value: '3' } }, { put: { key: 'h/b', value: '4' } }], { message: 'both' });
  await config.delete('h/a', { message: 'delete' });
  const all = await entries(config, { prefix: 'h', pageSize: 1, values: true });
  assert.deepEqual(
    all.map(({ kind, key, message, object }) => [kind, key, message, object?.value]),
    [
      ['delete', 'h/a', 'delete', undefined],
      ['put', 'h/a', 'both', '3'],
      ['put', 'h/b', 'both', '4'],
      ['put', 'h/a', 'update', '2'],
      ['put', 'h/a', 'put', '1'],
    ],
  );
  assert.equal(all[1]!.revision, both.revision);
  assert.equal(all[1]!.transactionWrites, 2);
  const [first] = await entries(config, { key: 'h/a', upTo: revision });
  const { revision: at, author, replacedRevision, transactionWrites, hasTTL, object } = first!;
  assert.deepEqual([at, author, replacedRevision, transactionWrites, hasTTL, object], [revision, 'ada', 0n, 1, false, undefined]);
  const shown = JSON.parse(JSON.stringify(first)) as Record<string, unknown>;
  assert.deepEqual([shown.revision, shown.time], [`${revision}`, first!.time!.toISOString()]);
});

void test('a time means a revision', async () => {
  const { revision } = await config.put('time/a', '1');
  const time = (await entries(config, { key: 'time/a' }))[0]!.time!;
  const earlier = new Date(time.getTime() - 3_600_000);
  assert.ok((await config.revisionAt(time)) >= revision);
  assert.ok((await config.revisionAt(time, { key: 'time/a' })) >= revision);
  assert.equal(await config.revisionAt(earlier), 0n);
  assert.deepEqual((await entries(config, { prefix: 'time', at: time })).map(({ key }) => key), ['time/a']);
  assert.deepEqual(await entries(config, { at: earlier }), []);
  await assert.rejects(entries(config, { at: time, upTo: revision }), TypeError);
  await assert.rejects(entries(config, { pageSize: -1 }), RangeError);
});

void test('a read returns the last change', async () => {
  await config.put('last/a', '1', { message: 'why' });
  const { lastChange } = await config.get('last/a', { lastChange: true });
  const [entry] = await entries(config, { key: 'last/a' });
  assert.deepEqual(lastChange, { author: 'ada', time: entry!.time, message: 'why' });
  assert.equal((await config.get('last/a')).lastChange, undefined);
});

void test('a message has a limit', async () => {
  const violations = [{ field: 'message', description: 'has 1025 bytes, the limit is 1024' }];
  await assert.rejects(config.put('limit/a', '1', { message: 'x'.repeat(1025) }), { reason: 'INVALID_REQUEST', violations });
});

void test('a history needs its right', async () => {
  await config.put('team/a', '1', { message: 'why' });
  await config.put('other', '1');
  const limited = other.resource('config');
  const [entry] = await entries(limited, { prefix: 'team' });
  assert.equal(entry!.message, 'why');
  assert.ok((await limited.revisionAt(entry!.time!, { prefix: 'team' })) > 0n);
  assert.equal((await limited.get('team/a', { lastChange: true })).lastChange?.author, 'ada');
  const denied = { reason: 'PERMISSION_DENIED' };
  await assert.rejects(entries(limited, { key: 'other' }), denied);
  await assert.rejects(limited.revisionAt(new Date()), denied);
  await assert.rejects(limited.get('other', { lastChange: true }), denied);
});

void test('a resource may have no history', async () => {
  const forgetful = client.resource('forgetful');
  await forgetful.put('a', '1', { message: 'why' });
  assert.equal((await forgetful.get('a', { lastChange: true })).lastChange, undefined);
  await assert.rejects(entries(forgetful, {}), { reason: 'NO_HISTORY' });
  await assert.rejects(forgetful.revisionAt(new Date()), { reason: 'NO_HISTORY' });
});

const [good, bad] = ['{"percent": 5}', '{"percent": 5000}'];
const json = { contentType: 'application/json' };
const description = 'must be at most 100, is 5000';

void test('a refusal names the faults', async () => {
  const refusal = { reason: 'VALUE_REFUSED', violations: [{ field: 'put.value/percent', description }] };
  await config.validate('flags/a', good, json);
  await config.validate('elsewhere', bad, json);
  await assert.rejects(config.validate('flags/a', bad, json), refusal);
  await assert.rejects(config.put('flags/a', bad, json), refusal);
  await assert.rejects(config.update('flags/a', () => bad, json), refusal);
  const puts = [{ put: { key: 'flags/b', value: good, ...json } }, { put: { key: 'flags/a', value: bad, ...json } }];
  await assert.rejects(config.transact(puts), {
    reason: 'VALUE_REFUSED',
    violations: [{ field: 'operations[1].put.value/percent', description }],
  });
  assert.equal((await config.count({ prefix: 'flags' })).count, 0n);
});

void test('a write can skip the validation', async () => {
  const skip = { ...json, skipValidation: true };
  await config.put('flags/skip-a', bad, skip);
  await config.update('flags/skip-b', () => bad, skip);
  await config.transact([{ put: { key: 'flags/skip-c', value: bad, ...json } }], skip);
  await assert.rejects(config.delete('flags/skip-a'), { reason: 'VALUE_REFUSED' });
  assert.equal((await config.delete('flags/skip-a', skip)).deleted, true);
  await config.transact([{ delete: { key: 'flags/skip-b' } }, { delete: { key: 'flags/skip-c' } }], skip);
  await assert.rejects(other.resource('config').put('flags/skip-a', bad, skip), { reason: 'PERMISSION_DENIED' });
});
