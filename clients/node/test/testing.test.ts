// The server for tests: what each of its commands does to a client.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, resolve } from 'node:path';
import { test } from 'node:test';
import { Client, codes, type FanoutError, type Update } from '../src/index.js';
import { TestServer, type TestServerOptions } from '../src/testing.js';

/** The program, which `make test-node` builds. */
const program = resolve(process.env.FANOUTTEST ?? '../../bin/fanouttest');

const start = (options: TestServerOptions = {}) => TestServer.start({ program, ...options });

/** put writes with a client of its own, whose first request needs no second attempt. */
async function put(server: TestServer, key: string, value: string, timeout?: number): Promise<void> {
  await using client = new Client(server.address, { insecure: true });
  await client.resource('config').put(key, value, { timeout });
}

/** drain reads a watch to its end. */
async function drain(watch: AsyncIterable<Update>): Promise<void> {
  for await (const _ of watch);
}

for (const [name, fail, want] of [
  ['cutConnections', (server) => server.cutConnections(), ['b']],
  ['expirePositions', (server) => server.expirePositions(), ['replace', 'a', 'b']],
  ['newEpoch', (server) => server.newEpoch(), ['replace', 'a', 'b']],
] satisfies [string, (server: TestServer) => Promise<void>, string[]][]) {
  void test(`a watch after ${name}`, async () => {
    await using server = await start();
    await using client = new Client(server.address, { insecure: true });
    const config = client.resource('config');
    await config.put('a', '1');
    let onInterruption!: () => void;
    const interrupted = new Promise<void>((resolve) => (onInterruption = resolve));
    const watch = config.watch({ onInterruption });
    await watch.next();
    await fail(server);
    const seen: string[] = [];
    const written = interrupted.then(() => put(server, 'b', '1'));
    for await (const { replace, events } of watch) {
      if (replace) seen.push('replace');
      seen.push(...events.map(({ object }) => object.key));
      if (seen.includes('b')) break;
    }
    await written;
    assert.deepEqual(seen, want);
  });
}

void test('expired positions end a watch of every event', async () => {
  await using server = await start();
  await using client = new Client(server.address, { insecure: true });
  await client.resource('config').put('a', '1');
  const watch = client.resource('config').watch({ everyEvent: true });
  await watch.next();
  await server.expirePositions();
  await assert.rejects(drain(watch), { reason: 'POSITION_EXPIRED' });
});

void test('stop and start', async () => {
  await using server = await start();
  await put(server, 'a', '1');
  await server.stop();
  await assert.rejects(put(server, 'a', '2', 500), ({ codeName }: FanoutError) => /UNAVAILABLE|DEADLINE/.test(codeName));
  await server.stop(); // it is stopped already
  await server.start();
  await using client = new Client(server.address, { insecure: true });
  assert.equal((await client.resource('config').get('a')).object.value, '1');
});

void test('refuse and accept', async () => {
  await using server = await start();
  await using client = new Client(server.address, { insecure: true });
  const watch = client.resource('config').watch();
  await watch.next();
  await server.refuse(codes.PERMISSION_DENIED, 'PERMISSION_DENIED');
  await assert.rejects(drain(watch), { reason: 'PERMISSION_DENIED' });
  await assert.rejects(put(server, 'a', '1'), { reason: 'PERMISSION_DENIED' });
  await server.accept();
  await put(server, 'a', '1');
  await assert.rejects(server.refuse(codes.OK, ''), /refuse with OK/);
});

void test('stopEtcd and startEtcd', async () => {
  await using server = await start();
  await server.stopEtcd();
  await assert.rejects(put(server, 'a', '1'), { reason: 'STORE_UNAVAILABLE' });
  await server.startEtcd();
  await put(server, 'a', '1');
});

void test('resources', async () => {
  await using server = await start({ resources: ['one', 'other'] });
  await using client = new Client(server.address, { insecure: true });
  await client.resource('other').put('a', '1');
  await assert.rejects(client.resource('one').get('a'), { reason: 'KEY_NOT_FOUND' });
  await assert.rejects(client.resource('third').get('a'), { reason: 'UNKNOWN_RESOURCE' });
});

void test('commands at the same time', async () => {
  await using server = await start();
  const all = await Promise.allSettled([server.refuse(codes.OK, ''), server.cutConnections(), server.stop(), server.start()]);
  assert.deepEqual(all.map(({ status }) => status), ['rejected', 'fulfilled', 'fulfilled', 'fulfilled']);
});

void test('a server that is closed', async () => {
  const server = await start();
  await server.close();
  await server.close();
  await assert.rejects(server.stop(), /the server is closed/);
});

void test('the program is found', async () => {
  const { FANOUTTEST: variable, PATH: path } = process.env;
  try {
    process.env.FANOUTTEST = '';
    process.env.PATH = dirname(program);
    await (await TestServer.start()).close();
    process.env.PATH = '/no';
    await assert.rejects(TestServer.start(), /there is no program 'fanouttest'.*FANOUTTEST/);
    process.env.FANOUTTEST = '/no/such';
    await assert.rejects(TestServer.start(), /there is no program '\/no\/such'/);
    await (await start()).close(); // the option wins
    process.env.FANOUTTEST = program;
    await (await TestServer.start()).close();
  } finally {
    process.env.FANOUTTEST = variable ?? '';
    process.env.PATH = path;
  }
  await assert.rejects(TestServer.start({ program: 'true' }), /true has ended/);
});

void test('the server ends with a test that is killed', async () => {
  const code = `import { TestServer } from ${JSON.stringify(new URL('../src/testing.js', import.meta.url).href)};
    console.log((await TestServer.start({ program: ${JSON.stringify(program)} })).address);`;
  // The server inherits standard error, which ends with the last of both processes.
  const killed = spawn(process.execPath, ['--input-type=module', '--eval', code], { stdio: ['ignore', 'pipe', 'pipe'] });
  await once(killed.stdout, 'data');
  killed.kill('SIGKILL');
  killed.stderr.resume();
  await once(killed, 'close');
});
