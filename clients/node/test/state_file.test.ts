import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { StoredObject } from '../src/object.js';
import { StateFile } from '../src/state_file.js';

const folder = await mkdtemp(join(tmpdir(), 'state-'));
after(() => rm(folder, { recursive: true }));

const object = (key: string, value: StoredObject['value']): StoredObject => ({
  key,
  value,
  contentType: 'text/plain',
  labels: { a: 'b' },
  opaque: false,
  createRevision: 1n,
  modRevision: 2n ** 60n,
  version: 3n,
  hasTTL: true,
});
const position = { epoch: 'e', revision: 2n ** 62n + 1n };

void test('a state is read as it was written', async () => {
  const file = new StateFile(join(folder, 'a'), 1 << 20, { resource: 'config' });
  const objects = [object('a', 'text'), object('b', new Uint8Array([0, 255])), object('c', ''), object('d', undefined)];
  await file.write(position, objects);
  assert.deepEqual(await file.read(), { position, objects });
  assert.equal((await stat(join(folder, 'a'))).mode & 0o777, 0o600);
});

void test('a state that is too large is not written', async () => {
  const file = new StateFile(join(folder, 'b'), 100, { resource: 'config' });
  await assert.rejects(file.write(position, [object('a', 'x'.repeat(100))]), /larger than 100 bytes/);
  assert.equal(await file.read(), undefined);
});
