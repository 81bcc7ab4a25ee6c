// Informers, watches and clients can be closed anywhere.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { Gate } from '../src/gate.js';
import {
  SubscribeRequestSchema,
  SubscribeResponseSchema,
  WatchResponse_Kind as Kind,
  type SubscribeRequest,
  type SubscribeResponse,
} from '../src/gen/fanout/v1/fanout_pb.js';
import { Client, textOf } from '../src/index.js';
import { methods } from '../src/methods.js';
import { answered, Fanoutd } from './fanoutd.js';

const server = await Fanoutd.start();
const clients: Client[] = [];
const open = () => {
  const client = new Client(server.address, { insecure: true });
  clients.push(client);
  return client;
};
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server[Symbol.asyncDispose]();
});
const config = open().resource('config');
await answered(() => config.put('a', '1'));

const forever = { timeout: 3_600_000 }; // nothing may depend on the end of the waiting

void test('in a handler', { timeout: 300_000 }, async () => {
  for (const what of ['informer', 'client'] as const) {
    const client = open();
    const informer = client.resource('config').informer();
    let returned = false;
    const ended = once(informer, 'close');
    const registration = informer.addHandler({
      add: async () => {
        await Promise.resolve();
        await (what === 'informer' ? informer : client).close(forever);
        returned = true;
      },
    });
    informer.start();
    await ended;
    await registration.done;
    assert.ok(returned);
    await informer.close();
    await client.close();
    await client.close();
  }
});

void test('in a handler for which another handler waits', { timeout: 300_000 }, async () => {
  const outer = config.informer();
  const inner = config.informer();
  const { done } = outer.addHandler({
    add: async () => {
      inner.addHandler({ add: () => outer.close(forever) });
      await inner.start().waitForSync();
    },
  });
  outer.start();
  await once(outer, 'close');
  await done;
  await inner.close();
});

void test('in listeners and decoders', { timeout: 300_000 }, async () => {
  for (const event of ['change', 'sync'] as const) {
    const informer = config.informer();
    informer.addHandler({ add: () => {} });
    let closed: Promise<void> | undefined;
    informer.on(event, () => void (closed = informer.close(forever)));
    informer.start();
    await once(informer, 'close');
    await closed;
    // One that joins gets its first state at once.
    const first = config.informer();
    await first.start().waitForSync();
    const second = config.informer();
    second.on('change', () => void (closed = second.close(forever)));
    second.start();
    await once(second, 'close');
    await first.close();
  }
  const client = open();
  let closed: Promise<void> | undefined;
  const decoding = client.resource('config').informer({ decode: () => void (closed = client.close(forever)) });
  decoding.start();
  await once(decoding, 'close');
  await closed;
});

void test('although a handler never settles', { timeout: 300_000 }, async () => {
  const client = open();
  const path = join(server.folder, 'busy');
  const informer = client.resource('config').informer({ lastKnownGood: { path, maxBytes: 1 << 20 } });
  let signal: AbortSignal | undefined;
  const called = new Promise<void>((resolve) => {
    informer.addHandler({
      add: (_, context) => {
        signal = context.signal;
        resolve();
        return new Promise(() => {});
      },
    });
  });
  informer.start();
  await called;
  assert.ok(!signal!.aborted);
  await informer.close({ timeout: 1 });
  assert.ok(signal?.aborted);
  assert.ok(existsSync(path));
  const other = client.resource('config').informer();
  other.addHandler({ add: () => new Promise(() => {}) });
  await once(other.start(), 'change');
  await client.close({ timeout: 1 });
});

void test('handlers get a signal, which their removal aborts', { timeout: 300_000 }, async () => {
  await using informer = config.informer({ decode: textOf });
  informer.start();
  const called = new Promise<AbortSignal>((resolve) => {
    const registration = informer.addHandler({
      add: async (_, { signal }) => {
        const aborted = once(signal, 'abort');
        registration.remove();
        await aborted;
        resolve(signal);
      },
    });
  });
  assert.match(((await called).reason as Error).message, /the handler was removed/);
});

void test('a closed informer fails at once', { timeout: 300_000 }, async () => {
  const closed = { name: 'FanoutError', reason: 'CLIENT_CLOSED' };
  const unstarted = config.informer();
  await unstarted.close();
  assert.throws(() => unstarted.start(), closed);
  await assert.rejects(unstarted.waitForSync(), closed);
  const informer = config.informer();
  await informer.start().waitForSync();
  await informer.close();
  await assert.rejects(informer.waitForSync(), closed);
  await assert.rejects(informer.waitForState(), closed);
  await assert.rejects(informer.addHandler({}).synced, closed);
  const client = open();
  await client.close();
  assert.throws(() => client.resource('config').informer().start(), closed);
  await assert.rejects(client.resource('config').watch().next(), closed);
  await assert.rejects(client.resource('config').get('a'), closed);
});

void test('a watch, in a loop over it and while it waits', { timeout: 300_000 }, async () => {
  const client = open();
  const watch = client.resource('config').watch();
  let updates = 0;
  for await (const { position } of watch) {
    updates++;
    assert.equal(watch.position, position);
    await watch.close();
  }
  assert.equal(updates, 1);
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
  await watch.close();
  for (const end of ['return', 'close'] as const) {
    const waiting = client.resource('config').watch({ prefix: 'nothing' });
    await waiting.next();
    const next = waiting.next();
    await waiting[end]();
    assert.deepEqual(await next, { done: true, value: undefined });
  }
  await assert.rejects(async () => {
    for await (const _ of client.resource('config').watch()) await client.close();
  }, { reason: 'CLIENT_CLOSED' });
});

void test('a watch that waits, at the server, too', { timeout: 300_000 }, async () => {
  const stopped = new Gate();
  const ended = new Gate();
  const scripted = new Server();
  scripted.addService({
    subscribe: {
      path: methods.subscribe.path,
      requestStream: true,
      responseStream: true,
      requestSerialize: () => Buffer.alloc(0),
      requestDeserialize: (bytes: Buffer) => fromBinary(SubscribeRequestSchema, bytes),
      responseSerialize: (response: SubscribeResponse) => Buffer.from(toBinary(SubscribeResponseSchema, response)),
      responseDeserialize: () => undefined,
    },
  }, {
    subscribe: (call: ServerDuplexStream<SubscribeRequest, SubscribeResponse>) => {
      call.on('data', ({ request }: SubscribeRequest) => {
        if (request.case === 'stop') stopped.open();
        if (request.case !== 'start') return;
        const response = { kind: Kind.LIVE, position: { epoch: 'e', revision: 1n } };
        call.write(create(SubscribeResponseSchema, {
          entries: [{ watchIds: [request.value.watchId], content: { case: 'response', value: response } }],
        }));
      });
      call.on('cancelled', ended.open);
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    scripted.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => error ? reject(error) : resolve(bound));
  });
  const client = new Client(`127.0.0.1:${port}`, { insecure: true });
  const watches = [client.resource('config').watch(), client.resource('config').watch()];
  await Promise.all(watches.map((watch) => watch.next()));
  const waiting = watches.map((watch) => watch.next());
  await watches[0]!.return();
  await stopped.promise;
  await watches[1]!.return();
  await ended.promise;
  await Promise.all(waiting);
  await client.close();
  scripted.forceShutdown();
});

