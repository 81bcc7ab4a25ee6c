// TLS, client certificates and tokens with a real server.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ConnectionPool } from '../src/connection_pool.js';
import { Client, FanoutError, NotReachedError } from '../src/index.js';
import { statuses } from '../src/wait.js';
import { Fanoutd, program, run } from './fanoutd.js';

const folder = mkdtempSync(join(tmpdir(), 'security-'));
const path = (name: string) => join(folder, name);

/** certificate makes a certificate that signs itself. */
function certificate(name: string): void {
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:fanoutd.example.com,IP:127.0.0.1'];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', path(`${name}.key`)];
  const made = spawnSync('openssl', ['req', '-x509', '-days', '2', ...key, '-out', path(`${name}.pem`), ...subject]);
  assert.equal(made.status, 0, made.stderr.toString());
}

/** token makes a token, and lets the server know it. */
function token(name: string): { token: string; line: string } {
  const { stdout, stderr } = spawnSync(program, ['token', 'create', name], { encoding: 'utf8' });
  return { token: stdout.trim(), line: stderr };
}

certificate('server');
const good = token('shop');
writeFileSync(path('tokens'), good.line);
const flags = [
  '--tls-cert-file', path('server.pem'),
  '--tls-key-file', path('server.key'),
  '--token-file', path('tokens'),
];
const server = await Fanoutd.start(...flags);
after(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const tls = { ca: readFileSync(path('server.pem')), serverName: 'fanoutd.example.com' };

/** ready writes an object as soon as the server is ready. */
async function ready(client: Client): Promise<void> {
  for (;;) {
    try {
      await client.resource('config').put('a', '1');
      return;
    } catch (error) {
      if (!(error instanceof FanoutError) || error.codeName !== 'UNAVAILABLE') throw error;
    }
  }
}

void test('a token is sent over TLS', async () => {
  await using client = new Client(server.address, { tls, token: good.token });
  await ready(client);
  assert.equal((await client.resource('config').get('a')).object.value, '1');
});

void test('a wait asks each address for the name', async () => {
  const clients = new ConnectionPool(['fanoutd.example.com:1'], { tls: { ca: tls.ca }, token: good.token });
  const servers = clients.alone(server.address, tls.serverName);
  for await (const { ended, servers: seen } of statuses(servers, 'config', 1n, { minWatches: 0, timeout: 300_000 })) {
    if (ended) assert.deepEqual(seen.map(({ address }) => address), [server.address]);
  }
  const others = clients.alone(server.address, 'other.example.com');
  const refused = async () => {
    for await (const _ of statuses(others, 'config', 1n, { minWatches: 0, timeout: 1000 }));
  };
  await assert.rejects(refused, NotReachedError);
});

void test('a server may have an address instead of a name', async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  await using client = new Client(server.address, { tls: { ca: tls.ca }, token: good.token });
  await ready(client);
  await using other = new Client(server.address, { tls: { ca: tls.ca, serverName: '10.0.0.1' }, token: good.token });
  await assert.rejects(other.resource('config').put('a', '1'), /10\.0\.0\.1/);
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});

void test('a refused token is replaced', async () => {
  const tokens = ['fanoutd_wrong', good.token];
  let asked = 0;
  await using client = new Client(server.address, {
    tls,
    token: () => Promise.resolve(tokens[Math.min(asked++, 1)]!),
  });
  await ready(client);
  assert.equal(asked, 2);
  asked = 0;
  for await (const { events } of client.resource('config').watch({ key: 'a' })) {
    assert.equal(events[0]?.object.key, 'a');
    break;
  }
  assert.equal(asked, 2);
});

void test('the settings of TLS are read again after a connection was lost, also by a client that only writes', async () => {
  let asked = 0;
  const settings = () => {
    asked++;
    return tls;
  };
  await using client = new Client(server.address, { tls: settings, token: good.token });
  await ready(client);
  const before = asked;
  await client.resource('config').put('a', '1');
  assert.equal(asked, before);
  await server.stop();
  server.start(...flags);
  {
    await using other = new Client(server.address, { tls, token: good.token });
    await ready(other);
  }
  await Promise.all(['2', '3'].map((value) => client.resource('config').put('a', value)));
  assert.equal(asked, before + 1);
  await client.resource('config').put('a', '1');
  assert.equal(asked, before + 1);
});

void test('a refused certificate is replaced on another connection', async () => {
  let asked = 0;
  const settings = () => {
    asked++;
    return tls;
  };
  const refused = { reason: 'UNAUTHENTICATED' };
  await using client = new Client(server.address, { tls: settings, token: 'fanoutd_wrong' });
  await assert.rejects(client.resource('config').put('a', '1'), refused);
  assert.equal(asked, 2);
  await assert.rejects(client.resource('config').watch().next(), refused);
  assert.equal(asked, 3);
});

void test('a watch ends if its token is refused', async () => {
  await using client = new Client(server.address, { tls, token: 'fanoutd_wrong' });
  await assert.rejects(client.resource('config').watch().next(), { reason: 'UNAUTHENTICATED' });
});

void test('a server that is not trusted gets nothing', async () => {
  await using client = new Client(server.address, { tls: {}, token: good.token });
  await assert.rejects(client.resource('config').put('a', '2'), { codeName: 'UNAVAILABLE' });
  assert.throws(() => new Client('fanoutd.example.com:7420', { insecure: true, token: 'x' }), TypeError);
});

void test('a process without open watches ends by itself', async () => {
  const program = `
    import { Client } from ${JSON.stringify(new URL('../src/index.js', import.meta.url).href)};
    const client = new Client(${JSON.stringify(server.address)}, {
      tls: { ca: ${JSON.stringify(tls.ca.toString())}, serverName: 'fanoutd.example.com' }, token: ${JSON.stringify(good.token)},
    });
    const informer = client.resource('config').informer();
    informer.addHandler({ add: () => { throw new Error('never'); } });
    await informer.start().waitForSync();
    for await (const update of client.resource('config').watch()) break;
    await client.close();
    console.log('closed');
  `;
  await using client = new Client(server.address, { tls, token: good.token });
  await ready(client);
  assert.equal(run(process.execPath, '--input-type=module', '--eval', program), 'closed\n');
});
