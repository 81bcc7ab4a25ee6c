// How a client connects, and which server it uses.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Channel, status } from '@grpc/grpc-js';
import type { FanoutError } from '../src/index.js';
import { Client } from '../src/index.js';
import { OpenedSockets } from '../src/opened_sockets.js';
import { refusal, ScriptedServer, SilentServer } from './scripted.js';

const object = { key: 'a', value: { case: 'text' as const, value: '1' } };

/** in turn begins with the first server of each client. */
function firstServer(t: { mock: { method(o: Math, n: 'random', f: () => number): unknown } }): void {
  t.mock.method(Math, 'random', () => 0);
}

for (const calls of [1, 2, 8]) {
  void test(`${calls} calls leave a server that accepts and stays silent`, { timeout: 300_000 }, async (t) => {
    firstServer(t);
    await using silent = await SilentServer.start();
    let puts = 0;
    await using good = await ScriptedServer.start({ get: () => ({ object }), put: () => ({ revision: BigInt(++puts) }) });
    await using client = new Client([silent.address, good.address]);
    const config = client.resource('config');
    const options = { timeout: 60_000 };
    const results = await Promise.all(Array.from({ length: calls }, (_, n) => (n % 2 ? config.put('a', '1', options) : config.get('a', options))));
    assert.equal(results.length, calls);
    assert.equal(puts, Math.floor(calls / 2));
    assert.equal(silent.accepted, 1);
  });
}

void test('a handshake of TLS that is not answered keeps neither the client nor the process', { timeout: 300_000 }, async () => {
  await using silent = await SilentServer.start();
  const program = `
    import { Client } from ${JSON.stringify(new URL('../src/index.js', import.meta.url).href)};
    const client = new Client(${JSON.stringify([silent.address, silent.address])}, { tls: {} });
    try {
      await client.resource('config').get('a', { timeout: 4000 }); // the second server is tried after 1 s
    } catch (error) {
      console.log(error.codeName);
    }
    await client.close();
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
  assert.equal(stdout, 'DEADLINE_EXCEEDED\n');
  assert.equal(silent.accepted, 2);
});

// A client may be closed between the beginning of an attempt and its first socket.
void test('a socket that opens after its attempt was abandoned is closed', { timeout: 300_000 }, async () => {
  await using silent = await SilentServer.start();
  const port = Number(silent.address.split(':')[1]);
  for (const [end, want] of [
    ['keep', 'connect'],
    ['abandon', 'close'],
  ] as const) {
    const sockets = new OpenedSockets();
    const opened = new Promise<Socket>((resolve) => {
      sockets.during(() => setImmediate(() => resolve(connect(port, '127.0.0.1'))));
    });
    sockets[end]();
    const socket = await opened;
    const seen = await Promise.race((['connect', 'close'] as const).map((event) => once(socket, event).then(() => event)));
    socket.destroy();
    assert.equal(seen, want);
  }
});

void test('a request fails when no server can be reached, with the reason', { timeout: 300_000 }, async () => {
  let address: string;
  {
    await using gone = await SilentServer.start();
    address = gone.address;
  }
  await using client = new Client(address);
  await assert.rejects(client.resource('config').put('a', '1'), (error: FanoutError) => {
    assert.equal(error.codeName, 'UNAVAILABLE');
    assert.match(error.message, /ECONNREFUSED/);
    return true;
  });
});

// It would be sent if the server came back meanwhile.
void test('the call that learns why there is no connection ends with the attempt', { timeout: 300_000 }, async (t) => {
  let address: string;
  {
    await using gone = await SilentServer.start();
    address = gone.address;
  }
  let started = () => {};
  const asked = new Promise<void>((resolve) => (started = resolve));
  let open = 0;
  const silent = {
    start: () => {
      open++;
      started();
    },
    cancelWithStatus: () => open--,
  };
  t.mock.method(Channel.prototype, 'createCall', () => silent);
  const client = new Client(address);
  const request = assert.rejects(client.resource('config').get('a'), { reason: 'CLIENT_CLOSED' });
  await asked;
  await client.close();
  await request;
  assert.equal(open, 0);
});

void test('a timeout is for all servers and attempts together', { timeout: 300_000 }, async () => {
  await using silent = await SilentServer.start();
  await using client = new Client(silent.address);
  await assert.rejects(client.resource('config').get('a', { timeout: 100 }), { codeName: 'DEADLINE_EXCEEDED' });
  let asked = 0;
  await using busy = await ScriptedServer.start({
    get: () => {
      asked++;
      throw refusal(status.UNAVAILABLE, 'NOT_READY', 3_600_000);
    },
  });
  await using other = new Client(busy.address);
  await assert.rejects(other.resource('config').get('a'), (error: FanoutError) => {
    assert.equal(error.codeName, 'DEADLINE_EXCEEDED');
    assert.match(error.message, /NOT_READY/);
    return true;
  });
  assert.equal(asked, 1);
});

for (const calls of [1, 2, 3, 8]) {
  void test(`${calls} calls that fail together move to the next server once`, { timeout: 300_000 }, async (t) => {
    firstServer(t);
    const asked = [0, 0, 0];
    let arrived = () => {};
    const all = new Promise<void>((resolve) => (arrived = resolve));
    const answer = (server: number) => async () => {
      const n = (asked[server] ?? 0) + 1;
      asked[server] = n;
      if (n === calls && server === 0) arrived();
      if (server > 0) return { object };
      await all;
      throw refusal(status.UNAVAILABLE);
    };
    await using a = await ScriptedServer.start({ get: answer(0) });
    await using b = await ScriptedServer.start({ get: answer(1) });
    await using c = await ScriptedServer.start({ get: answer(2) });
    await using client = new Client([a.address, b.address, c.address]);
    await Promise.all(Array.from({ length: calls }, () => client.resource('config').get('a')));
    assert.deepEqual(asked, [calls, calls, 0]);
  });
}

void test('an error with a reason moves to another server, too', { timeout: 300_000 }, async (t) => {
  firstServer(t);
  await using a = await ScriptedServer.start({
    get: () => {
      throw refusal(status.UNAVAILABLE, 'STORE_UNAVAILABLE');
    },
  });
  await using b = await ScriptedServer.start({ get: () => ({ object }) });
  await using client = new Client([a.address, b.address]);
  assert.equal((await client.resource('config').get('a')).object.value, '1');
});

void test('a proxy is not used for a server on this machine', { timeout: 300_000 }, async () => {
  await using proxy = await SilentServer.start();
  await using server = await ScriptedServer.start({ get: () => ({ object }) });
  process.env.http_proxy = `http://${proxy.address}`;
  try {
    await using client = new Client(server.address, { token: 'x' });
    await client.resource('config').get('a');
  } finally {
    delete process.env.http_proxy;
  }
  assert.equal(proxy.accepted, 0);
});

void test('addresses are checked when the client is made', () => {
  for (const address of ['http://a:1', 'https://a', 'a', 'a:', 'a:b', '[::1]', '::1', 'a:1,b', 'dns:///a', 'a:65536', '', ',']) {
    assert.throws(() => new Client(address), TypeError, address);
  }
  for (const address of ['a:1', '[::1]:1', 'a:1, b:2', 'dns:///a:1', 'dns://10.0.0.1/a:1', 'ipv4:10.0.0.1:1', 'unix:///run/x.sock', 'unix:x']) {
    new Client(address);
  }
});

void test('a token is not sent in plaintext to another machine', async () => {
  for (const address of ['127.0.0.1:1', 'localhost:1', '[::1]:1', '[::ffff:127.0.0.1]:1', 'unix:///x', 'dns:///localhost:1']) {
    new Client(address, { token: 'x' });
    new Client(address, { token: 'x', insecure: true });
  }
  for (const address of ['10.0.0.1:1', 'a:1', '127.0.0.1:1,a:1', 'localhost.example.com:1', 'dns:///a:1']) {
    new Client(address, { token: 'x' });
    assert.throws(() => new Client(address, { token: 'x', insecure: true }), TypeError);
  }
  assert.throws(() => new Client('a:1', { insecure: true, tls: {} }), TypeError);
  let tokens: unknown[] = [];
  await using server = await ScriptedServer.start({
    get: (_, metadata) => {
      tokens = metadata.get('authorization');
      return { object };
    },
  });
  await using client = new Client(server.address, { token: 'x' });
  await client.resource('config').get('a');
  assert.deepEqual(tokens, ['Bearer x']);
});
