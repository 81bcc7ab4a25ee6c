// How often requests are sent, and when they end.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InterceptingCall, status, type Metadata } from '@grpc/grpc-js';
import { Event_Type, WatchResponse_Kind as Kind } from '../src/gen/fanout/v1/fanout_pb.js';
import { Client, FanoutError, type HandlerFailed, type RequestEnd } from '../src/index.js';
import { refusal, ScriptedServer, SilentServer, synced } from './scripted.js';

const object = { key: 'a', value: { case: 'text' as const, value: '1' } };
const hour = 3_600_000;

void test('reads are sent four times, writes once', { timeout: 300_000 }, async () => {
  let error = refusal(status.UNAVAILABLE);
  let asked = 0;
  const fail = () => {
    asked++;
    throw error;
  };
  await using server = await ScriptedServer.start({ get: fail, put: fail });
  const ended: RequestEnd[] = [];
  await using client = new Client(server.address, { observer: { request: (event) => ended.push(event) } });
  const config = client.resource('config');
  for (const { what, refused, sent } of [
    { what: 'get', refused: refusal(status.UNAVAILABLE), sent: 4 },
    { what: 'get', refused: refusal(status.UNAVAILABLE, 'NOT_READY', 1), sent: 4 },
    { what: 'get', refused: refusal(status.RESOURCE_EXHAUSTED, 'RATE_LIMITED', 1), sent: 4 },
    { what: 'get', refused: refusal(status.RESOURCE_EXHAUSTED, 'LIMIT_REACHED'), sent: 1 },
    { what: 'get', refused: refusal(status.UNAVAILABLE, 'REVISION_NOT_REACHED'), sent: 1 },
    { what: 'get', refused: refusal(status.INTERNAL), sent: 1 },
    { what: 'get', refused: refusal(status.UNAUTHENTICATED), sent: 1 },
    { what: 'put', refused: refusal(status.UNAVAILABLE), sent: 1 },
  ]) {
    error = refused;
    asked = 0;
    await assert.rejects(what === 'get' ? config.get('a') : config.put('a', '1'), FanoutError);
    assert.equal(asked, sent, `${what} ${(refused as unknown as FanoutError).code}`);
    const { method, resource, attempts } = ended.at(-1)!;
    assert.deepEqual({ method, resource, attempts }, { method: what === 'get' ? 'Get' : 'Put', resource: 'config', attempts: sent });
  }
});

void test('a token that cannot be had is asked for again', { timeout: 300_000 }, async () => {
  await using server = await ScriptedServer.start({ get: () => ({ object }) });
  let asked = 0;
  const token = () => {
    if (++asked < 3) throw new Error('not now');
    return 'x';
  };
  await using client = new Client(server.address, { token });
  await client.resource('config').get('a');
  assert.equal(asked, 3);
  await using never = new Client(server.address, { token: () => new Promise<string>(() => {}) });
  await assert.rejects(never.resource('config').get('a', { timeout: 100 }), { codeName: 'DEADLINE_EXCEEDED' });
});

void test('a server that cancels a request at the deadline has reached it', { timeout: 300_000 }, async (t) => {
  const now = performance.now.bind(performance);
  let passed = 0;
  t.mock.method(performance, 'now', () => now() + passed);
  await using server = await ScriptedServer.start({
    get: () => {
      passed += hour;
      throw refusal(status.CANCELLED);
    },
    put: () => {
      throw refusal(status.CANCELLED);
    },
  });
  await using client = new Client(server.address);
  await assert.rejects(client.resource('config').get('a'), { codeName: 'DEADLINE_EXCEEDED' });
  await assert.rejects(client.resource('config').put('a', '1'), { codeName: 'CANCELLED' });
});

void test('a step of the clock changes nothing', { timeout: 300_000 }, async (t) => {
  const { now } = Date;
  let step = 0;
  t.mock.method(Date, 'now', () => now() + step);
  let asked = 0;
  await using server = await ScriptedServer.start({
    get: () => {
      if (asked++ > 0) return { object };
      step = hour;
      throw refusal(status.UNAVAILABLE, 'NOT_READY');
    },
    put: () => new Promise(() => {}),
  });
  await using client = new Client(server.address, {
    token: () => {
      if (asked > 1) step -= hour;
      return 'x';
    },
  });
  await client.resource('config').get('a', { timeout: 60_000 });
  assert.equal(asked, 2);
  await assert.rejects(client.resource('config').put('a', '1', { timeout: 500 }), { codeName: 'DEADLINE_EXCEEDED' });
});

void test('requests carry metadata and options, and pass interceptors', { timeout: 300_000 }, async () => {
  const seen: { metadata: Metadata; jsonValues?: boolean; overwriteOpaque?: boolean | undefined }[] = [];
  await using server = await ScriptedServer.start({
    get: ({ jsonValues }, metadata) => {
      seen.push({ metadata, jsonValues });
      return { object };
    },
    put: ({ put }, metadata) => {
      seen.push({ metadata, overwriteOpaque: put?.overwriteOpaque });
      return { revision: 1n };
    },
  });
  const intercepted: string[] = [];
  await using client = new Client(server.address, {
    interceptors: [
      (options, next) => {
        intercepted.push(options.method_definition.path);
        return new InterceptingCall(next(options));
      },
    ],
    channelOptions: { 'grpc.primary_user_agent': 'shop/1' },
  });
  const config = client.resource('config');
  await config.get('a', { metadata: { tenant: 'x', 'raw-bin': new Uint8Array([0, 255]) }, jsonValues: true });
  await config.put('a', '1', { overwriteOpaque: true });
  assert.deepEqual(intercepted, ['/fanout.v1.FanoutService/Get', '/fanout.v1.StoreService/Put']);
  assert.deepEqual(seen[0]?.metadata.get('tenant'), ['x']);
  assert.deepEqual(seen[0].metadata.get('raw-bin'), [Buffer.from([0, 255])]);
  assert.match(String(seen[0].metadata.get('user-agent')[0]), /^shop\/1 /);
  assert.equal(seen[0].jsonValues, true);
  assert.equal(seen[1]?.overwriteOpaque, true);
});

void test('messages of up to 64 MiB are accepted', { timeout: 300_000 }, async () => {
  let size = 60 << 20;
  await using server = await ScriptedServer.start({ get: () => ({ object: { key: 'a', value: { case: 'data', value: new Uint8Array(size) } } }) });
  await using client = new Client(server.address);
  assert.equal((await client.resource('config').get('a')).object.value?.length, size);
  size = 64 << 20;
  await assert.rejects(client.resource('config').get('a'), { codeName: 'RESOURCE_EXHAUSTED' });
});

void test('whatever waits fails at once when the client is closed', { timeout: 300_000 }, async () => {
  await using silent = await SilentServer.start();
  const connecting = new Client(silent.address);
  const closed = { reason: 'CLIENT_CLOSED' };
  const waiting = [
    assert.rejects(connecting.resource('config').get('a'), closed),
    assert.rejects(connecting.resource('config').put('a', '1'), closed),
    assert.rejects(connecting.resource('config').watch().next(), closed),
  ];
  await Promise.all([connecting.close(), connecting.close(), ...waiting]);
  await connecting.close();
  await assert.rejects(connecting.resource('config').get('a'), closed);
  await assert.rejects(connecting.resource('config').watch().next(), closed);

  let arrived = () => {};
  const asked = new Promise<void>((resolve) => (arrived = resolve));
  await using server = await ScriptedServer.start({
    get: () => {
      arrived();
      return new Promise(() => {});
    },
  });
  const client = new Client(server.address);
  const answer = assert.rejects(client.resource('config').get('a'), closed);
  await asked;
  await client.close();
  await answer;

  const noToken = new Client(server.address, { token: () => new Promise<string>(() => {}) });
  const request = assert.rejects(noToken.resource('config').get('a'), closed);
  await noToken.close();
  await request;
});

void test('a signal that is aborted at once ends what has just begun', { timeout: 300_000 }, async () => {
  await using server = await ScriptedServer.start({ get: () => ({ object }), put: () => new Promise(() => {}), watch: (stream) => synced(stream) });
  await using client = new Client(server.address);
  const config = client.resource('config');
  await config.get('a'); // the client is connected
  const reason = new Error('enough');
  for (let turns = 0; turns < 20; turns++) {
    const end = new AbortController();
    const ended = [config.put('a', '1', { signal: end.signal }), config.watch({ signal: end.signal }).next()];
    const rejected = ended.map((result) => assert.rejects(result, reason));
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    end.abort(reason);
    await Promise.all(rejected);
  }
});

void test('many requests and watches at the same time leave no warnings of listeners', { timeout: 300_000 }, async () => {
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on('warning', warn);
  await using server = await ScriptedServer.start({ get: () => ({ object }), watch: (stream) => synced(stream) });
  await using client = new Client(server.address);
  const { signal } = new AbortController();
  const config = client.resource('config');
  await Promise.all(Array.from({ length: 30 }, () => config.get('a', { signal })));
  const watches = Array.from({ length: 30 }, () => config.watch({ signal }));
  await Promise.all(watches.map((watch) => watch.next()));
  await Promise.all(watches.map((watch) => watch.return()));
  await new Promise((resolve) => setImmediate(resolve));
  process.off('warning', warn);
  assert.deepEqual(warnings, []);
});

void test('informers and handlers that fail are seen by metrics', { timeout: 300_000 }, async () => {
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      const events = ['a', 'b'].map((key) => ({ type: Event_Type.ADDED, object: { key, modRevision: 1n }, revision: 1n }));
      stream.write({ kind: Kind.SYNCED, position: { epoch: 'e', revision: 1n }, events });
    },
  });
  let failed: (event: HandlerFailed) => void = () => {};
  const failure = new Promise<HandlerFailed>((resolve) => (failed = resolve));
  await using client = new Client(server.address, { observer: { handlerFailed: (event) => failed(event) } });
  const informer = client.resource('config').informer({
    decode: ({ key }) => {
      if (key === 'b') throw new Error('invalid');
      return key;
    },
  });
  informer.addHandler({ add: () => Promise.reject(new Error('no')) });
  await informer.start().waitForSync();
  const { resource, key, error } = await failure;
  assert.deepEqual([resource, key, (error as Error).message], ['config', 'a', 'no']);
  const [state] = client.informers;
  assert.deepEqual([state?.resource, state?.size, state?.stale, state?.invalid, state?.queue], ['config', 1, false, 1, 1]);
  await informer.close();
  assert.deepEqual(client.informers, []);
});
