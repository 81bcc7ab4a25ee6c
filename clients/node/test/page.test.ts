// The example of a unit test on the page of the client.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

void test('the unit test of the page runs', (t) => {
  const section = readFileSync('../../docs/clients/node.md', 'utf8').split('\n## Unit tests\n')[1]!;
  const code = section.split('```js\n')[1]!.split('```')[0]!;
  const folder = mkdtempSync(join(tmpdir(), 'page-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'page.test.mjs');
  const at = (file: string) => JSON.stringify(new URL(`../src/${file}`, import.meta.url).href);
  writeFileSync(path, code.replace("'@fanoutd/client'", at('index.js')).replace("'@fanoutd/client/testing'", at('testing.js')));
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // it is no part of this test
  env.FANOUTTEST = resolve(env.FANOUTTEST ?? '../../bin/fanouttest');
  const { status, stdout } = spawnSync(process.execPath, ['--test', path], { encoding: 'utf8', env });
  assert.equal(status, 0, stdout);
  assert.match(stdout, /pass 1\n/);
});
