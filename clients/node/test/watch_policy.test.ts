// What a watch does when its stream ends. The hooks show the delays.

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { test, type TestContext } from 'node:test';
import { Metadata, status } from '@grpc/grpc-js';
import { addressOf } from '../src/address.js';
import { Connection } from '../src/connection.js';
import { Credentials } from '../src/credentials.js';
import { Event_Type, WatchResponse_Kind as Kind, type SubscribeRequest, type WatchRequest } from '../src/gen/fanout/v1/fanout_pb.js';
import { Client, type ClientOptions, type Observer, type FanoutError, type WatchInterrupted, type WatchOptions } from '../src/index.js';
import { SharedStream, type SubscribeCall } from '../src/shared_stream.js';
import { SubscribeSupport } from '../src/subscribe_support.js';
import { refusal, ScriptedServer, SilentServer, synced, type SubscribeStream, type WatchStream } from './scripted.js';

const position = { epoch: 'e', revision: 5n };

/** longestDelays makes all random delays as long as they can be. */
function longestDelays(t: TestContext): void {
  t.mock.method(Math, 'random', () => 1 - Number.EPSILON);
}

/** shortStreams makes all streams short, however busy the machine is. */
function shortStreams(t: TestContext): void {
  t.mock.method(performance, 'now', () => 0);
}

/** end ends a stream of a server with an error, or with OK. */
function end(stream: WatchStream, error?: Error): void {
  if (error) stream.emit('error', error);
  else stream.end();
}

/** An observer whose interruptions a test awaits. */
class Interruptions {
  readonly events: WatchInterrupted[] = [];
  #waiting: { count: number; resolve: () => void } | undefined;
  readonly observer: Observer = {
    watchInterrupted: (event) => {
      this.events.push(event);
      if (this.events.length === this.#waiting?.count) this.#waiting.resolve();
    },
  };

  async delays(count: number): Promise<number[]> {
    if (this.events.length < count) await new Promise<void>((resolve) => (this.#waiting = { count, resolve }));
    return this.events.slice(0, count).map(({ delay }) => Math.round(delay));
  }
}

/** following runs a watch while a function runs. */
async function following<T>(client: Client, options: WatchOptions, during: () => Promise<T>): Promise<T> {
  const signal = new AbortController();
  const watch = (async () => {
    for await (const _ of client.resource('config').watch({ ...options, signal: signal.signal }));
  })().catch((error: unknown) => {
    if (!signal.signal.aborted) throw error;
  });
  try {
    return await Promise.race([during(), watch.then(() => Promise.reject(new Error('the watch has ended')))]);
  } finally {
    signal.abort();
    await watch;
  }
}

void test('the delays after failures double', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  shortStreams(t);
  const interruptions = new Interruptions();
  await using server = await ScriptedServer.start({ watch: (stream) => end(stream, refusal(status.INTERNAL)) });
  await using client = new Client(server.address, { observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(4)), [200, 400, 800, 1600]);
  assert.deepEqual({ ...interruptions.events[0], delay: 0 }, { resource: 'config', code: 'INTERNAL', reason: '', delay: 0 });
});

void test('RetryInfo is added, at most a minute', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  const interruptions = new Interruptions();
  await using server = await ScriptedServer.start({ watch: (stream) => end(stream, refusal(status.UNAVAILABLE, 'NOT_READY', 3_600_000)) });
  await using client = new Client(server.address, { observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(1)), [60_200]);
});

void test('a server that drains is left at once, but only three times in a row after short streams', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  shortStreams(t);
  const interruptions = new Interruptions();
  const connections = new Set<string>();
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      connections.add(stream.getPeer());
      synced(stream);
      stream.write({ kind: Kind.DRAINING, position, resumeAtOnce: true });
      end(stream, refusal(status.UNAVAILABLE, 'DRAINING'));
    },
  });
  await using client = new Client(server.address, { observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(4)), [0, 0, 0, 200]);
  assert.equal(connections.size, 4);
});

void test('the clients of a server that drains spread over a second', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  shortStreams(t);
  const interruptions = new Interruptions();
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      synced(stream);
      end(stream, refusal(status.UNAVAILABLE, 'DRAINING', 3000));
    },
  });
  await using client = new Client(server.address, { observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(1)), [3200]);
});

void test('the time limit of a watch is not an interruption', { timeout: 300_000 }, async () => {
  const interruptions = new Interruptions();
  let streams = 0;
  let again = () => {};
  const third = new Promise<void>((resolve) => (again = resolve));
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      synced(stream);
      if (++streams === 3) again();
      else end(stream);
    },
  });
  await using client = new Client(server.address, { observer: interruptions.observer });
  await following(client, {}, () => third);
  assert.deepEqual(interruptions.events, []);
});

void test('the delay after a time limit is that of failures, also after DRAINING', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const timers = t.mock.method(globalThis, 'setTimeout');
  const interruptions = new Interruptions();
  let streams = 0;
  let again = () => {};
  const last = new Promise<void>((resolve) => (again = resolve));
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      streams++;
      if (streams === 5) again();
      if (streams === 3) now += 5000; // it lasts
      synced(stream);
      stream.write({ kind: Kind.DRAINING, position });
      if (streams < 5) end(stream);
    },
  });
  await using client = new Client(server.address, { observer: interruptions.observer });
  await following(client, {}, () => last);
  // A pause is a millisecond longer than its delay.
  const pauses = timers.mock.calls.map(({ arguments: [, pause = 0] }) => pause - 1).filter((delay) => delay > 0 && delay % 100 === 0);
  assert.deepEqual(pauses, [200, 400, 200, 400]);
  assert.deepEqual(interruptions.events, []);
});

void test('a watch that was too slow for its stream has worked', { timeout: 300_000 }, async () => {
  const interruptions = new Interruptions();
  let streams = 0;
  await using server = await ScriptedServer.start({
    subscribe: (stream) => {
      stream.sendMetadata(new Metadata());
      stream.on('data', ({ request }: SubscribeRequest) => {
        if (request.case !== 'start') return;
        const { watchId } = request.value;
        const value = Buffer.alloc(1 << 20, 'x').toString();
        const event = { type: Event_Type.ADDED, object: { key: 'a', value: { case: 'text' as const, value } }, revision: 1n };
        const content =
          ++streams === 1
            ? { case: 'response' as const, value: { kind: Kind.SYNCED, position, events: [event] } }
            : { case: 'ended' as const, value: { code: status.NOT_FOUND } }; // of a proxy
        stream.write({ entries: [{ watchIds: [watchId], content }] });
      });
    },
  });
  await using client = new Client(server.address, { observer: interruptions.observer });
  await following(client, {}, () => interruptions.delays(1));
});

void test('which errors end a watch', { timeout: 300_000 }, async () => {
  const ends = { fresh: true, worked: true };
  const onlyFresh = { fresh: true, worked: false };
  const never = { fresh: false, worked: false };
  const final = [
    status.INVALID_ARGUMENT,
    status.NOT_FOUND,
    status.PERMISSION_DENIED,
    status.UNIMPLEMENTED,
    status.FAILED_PRECONDITION,
  ];
  for (const { code, reason, want, options = {}, client: clientOptions = {} } of [
    ...final.map((code) => ({ code, reason: 'SOME_REASON', want: ends })),
    ...final.map((code) => ({ code, reason: undefined, want: onlyFresh })),
    { code: status.RESOURCE_EXHAUSTED, reason: 'REQUEST_TOO_LARGE', want: ends },
    { code: status.RESOURCE_EXHAUSTED, reason: 'LIMIT_REACHED', want: never },
    { code: status.UNKNOWN, reason: undefined, want: never },
    { code: status.ABORTED, reason: 'NEW_REASON', want: never },
    { code: status.UNAUTHENTICATED, reason: 'UNAUTHENTICATED', want: ends },
    { code: status.UNAUTHENTICATED, reason: undefined, want: ends },
    { code: status.UNAUTHENTICATED, reason: 'UNAUTHENTICATED', client: { token: () => 'x' }, want: never },
    { code: status.OUT_OF_RANGE, reason: 'NEW_REASON', want: { fresh: true, worked: false } },
    { code: status.OUT_OF_RANGE, reason: undefined, want: { fresh: true, worked: false } },
    { code: status.OUT_OF_RANGE, reason: undefined, options: { everyEvent: true }, want: ends },
    { code: status.OUT_OF_RANGE, reason: 'POSITION_EXPIRED', options: { after: position }, want: never },
    { code: status.OUT_OF_RANGE, reason: 'EPOCH_CHANGED', options: { after: { epoch: '', revision: 0n } }, want: onlyFresh },
    { code: status.OUT_OF_RANGE, reason: 'POSITION_EXPIRED', want: never },
    { code: status.OUT_OF_RANGE, reason: 'POSITION_EXPIRED', options: { everyEvent: true }, want: ends },
    { code: status.OUT_OF_RANGE, reason: 'POSITION_EXPIRED', options: { consistency: { exactRevision: 3n } }, want: onlyFresh },
  ] as { code: status; reason?: string; want: typeof ends; options?: WatchOptions; client?: ClientOptions }[]) {
    for (const worked of [false, true]) {
      const interruptions = new Interruptions();
      await using server = await ScriptedServer.start({
        watch: (stream) => {
          if (worked) synced(stream);
          end(stream, refusal(code, reason));
        },
      });
      await using client = new Client(server.address, { ...clientOptions, observer: interruptions.observer });
      const goesOn = following(client, options, () => interruptions.delays(1));
      const what = `${status[code]} ${reason} ${worked}`;
      if (worked ? want.worked : want.fresh) await assert.rejects(goesOn, { code }, what);
      else await goesOn.catch((error: unknown) => assert.fail(`${what}: ${String(error)}`));
    }
  }
});

void test('a refused token that has worked gets 5 s', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  const interruptions = new Interruptions();
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      synced(stream);
      end(stream, refusal(status.UNAUTHENTICATED, 'UNAUTHENTICATED'));
    },
  });
  await using client = new Client(server.address, { token: () => 'x', observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(1)), [5200]);
});

void test('a certificate that expires gets 5 s more than a drain', { timeout: 300_000 }, async (t) => {
  longestDelays(t);
  shortStreams(t);
  const interruptions = new Interruptions();
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      synced(stream);
      stream.write({ kind: Kind.DRAINING, position });
      end(stream, refusal(status.UNAUTHENTICATED, 'UNAUTHENTICATED'));
    },
  });
  await using client = new Client(server.address, { token: () => 'x', observer: interruptions.observer });
  assert.deepEqual(await following(client, {}, () => interruptions.delays(1)), [6200]);
});

void test('options of the first start do not apply after a lost position', { timeout: 300_000 }, async () => {
  for (const { options, first, second } of [
    { options: { fromNow: true }, first: 'fromNow undefined', second: 'undefined undefined' },
    { options: { after: { epoch: '', revision: 0n }, fromNow: true }, first: 'fromNow undefined', second: 'undefined undefined' },
    { options: { after: position, fromNow: true }, first: 'after undefined', second: 'undefined undefined' },
    { options: { consistency: { minRevision: 3n } }, first: 'undefined minRevision', second: 'undefined undefined' },
    { options: { consistency: { exactRevision: 3n } }, first: 'undefined exactRevision', second: 'undefined undefined' },
    { options: { consistency: 'any' as const }, first: 'undefined any', second: 'undefined any' },
  ]) {
    const requests: WatchRequest[] = [];
    let begun = () => {};
    const all = new Promise<void>((resolve) => (begun = resolve));
    await using server = await ScriptedServer.start({
      watch: (stream) => {
        requests.push(stream.request);
        if (requests.length === 3) begun();
        synced(stream, 4n);
        end(stream, requests.length === 2 || options.after?.revision ? refusal(status.OUT_OF_RANGE, 'EPOCH_CHANGED') : undefined);
      },
    });
    await using client = new Client(server.address);
    await following(client, options, () => all);
    const shown = requests.map(({ begin, consistency }) => `${begin.case} ${consistency?.level.case}`);
    assert.equal(shown[0], first);
    assert.equal(shown[options.after?.revision ? 1 : 2], second);
  }
});

void test('a first state that takes too long is tried again, also without the revision of the first start', { timeout: 300_000 }, async () => {
  const requests: WatchRequest[] = [];
  let begun = () => {};
  const all = new Promise<void>((resolve) => (begun = resolve));
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      requests.push(stream.request);
      if (requests.length === 1) synced(stream, 4n);
      if (requests.length === 4) begun();
      else end(stream, refusal(status.OUT_OF_RANGE, 'POSITION_EXPIRED'));
    },
  });
  await using client = new Client(server.address);
  await following(client, { consistency: { exactRevision: 4n } }, () => all);
  assert.deepEqual(
    requests.map(({ consistency }) => consistency?.level.case),
    ['exactRevision', undefined, undefined, undefined],
  );
});

void test('a silent server is left for another one', { timeout: 300_000 }, async (t) => {
  t.mock.method(Math, 'random', () => 0);
  await using silent = await ScriptedServer.start({ watch: (stream) => synced(stream) });
  let arrived = () => {};
  const other = new Promise<void>((resolve) => (arrived = resolve));
  await using good = await ScriptedServer.start({
    watch: (stream) => {
      arrived();
      synced(stream);
    },
  });
  await using client = new Client([silent.address, good.address]);
  await following(client, { bookmarkInterval: 100 }, () => other);
});

void test('Watch replaces a Subscribe that is not answered', { timeout: 300_000 }, async () => {
  const opened: boolean[] = [];
  let again = () => {};
  const second = new Promise<void>((resolve) => (again = resolve));
  const observer: Observer = {
    watchOpened: ({ shared }) => {
      if (opened.push(shared) === 2) again();
    },
  };
  let subscribed = 0;
  await using server = await ScriptedServer.start({
    watch: (stream) => synced(stream),
    subscribe: (_: SubscribeStream) => {
      subscribed++;
    },
  });
  await using client = new Client(server.address, { observer });
  await following(client, {}, () => following(client, { prefix: 'a' }, () => second));
  // Another connection of the client remembers it.
  await following(client, {}, () => Promise.resolve());
  assert.deepEqual(opened, [false, false]);
  assert.equal(subscribed, 1);
});

/** A call of Subscribe whose server does not answer before `answer`. */
class UnansweredCall extends EventEmitter {
  readableEnded = false;
  write(): boolean {
    return true;
  }
  cancel(): void {
    this.removeAllListeners();
  }
  answer(): void {
    this.emit('metadata');
  }
}

void test('Subscribe is missing only if another request is answered first', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (const [answers, header, want] of [
    [true, false, status.UNIMPLEMENTED],
    [false, false, status.UNAVAILABLE],
    [true, true, undefined],
  ] as const) {
    const call = new UnansweredCall();
    let result: number | undefined;
    const ended = (error: FanoutError | undefined) => (result = error?.code);
    const other = () => Promise.resolve(answers);
    const stream = new SharedStream(() => Promise.resolve(call as unknown as SubscribeCall), ended, other);
    await new Promise(setImmediate);
    t.mock.timers.tick(5000);
    if (header) call.answer(); // before the other request is answered
    await new Promise(setImmediate);
    t.mock.timers.tick(1000);
    assert.equal(result, want);
    assert.equal(stream.open, want === undefined);
  }
});

for (const over of ['the last watch stops', 'the header comes'] as const) {
  void test(`the request that tests a server leaves nothing when ${over}`, { timeout: 300_000 }, async (t) => {
    // The header is overdue at once. The deadline of the other request never comes: its timers end only with the request.
    const { setTimeout, clearTimeout } = globalThis;
    const deadlines = new Set<unknown>();
    t.mock.method(globalThis, 'setTimeout', (call: () => void, delay: number) => {
      const deadline = delay > 15_000 && delay <= 20_000;
      const timer = setTimeout(call, deadline ? 3_600_000 : delay === 5000 ? 0 : delay);
      if (deadline) deadlines.add(timer);
      return timer;
    });
    t.mock.method(globalThis, 'clearTimeout', (timer: NodeJS.Timeout | undefined) => {
      deadlines.delete(timer);
      clearTimeout(timer);
    });
    let subscribed: SubscribeStream | undefined;
    let arrived = () => {};
    const reported = new Promise<void>((resolve) => (arrived = resolve));
    await using server = await ScriptedServer.start({
      report: () => {
        arrived();
        return new Promise(() => {});
      },
      subscribe: (stream) => {
        subscribed = stream;
      },
    });
    let gone = 0;
    const connection = new Connection(0, server.address, new Credentials({}, [addressOf(server.address)]).settingsOf(0), {
      closing: new AbortController().signal,
      log: { info: () => {}, warn: () => {} },
      subscribe: new SubscribeSupport(),
      hasOthers: false,
      failed: () => {},
      refused: () => {},
      gone: () => {
        gone++;
      },
    });
    t.after(() => connection.close());
    await connection.connect(60_000);
    let asked = () => {};
    const answered = new Promise<void>((resolve) => (asked = resolve));
    const watch = connection.watch({ resource: 'config' }, { asked, message: () => {}, end: () => {} });
    await reported;
    assert.notEqual(deadlines.size, 0);
    if (over === 'the header comes') {
      subscribed!.sendMetadata(new Metadata());
      await answered;
      while (deadlines.size > 0) await new Promise(setImmediate); // that of the server ends with the call
    }
    connection.retire();
    assert.equal(gone, 0);
    watch.stop();
    await new Promise(setImmediate);
    assert.equal(gone, 1);
    while (deadlines.size > 0) await new Promise(setImmediate);
  });
}

void test('Subscribe is tried again after five minutes', (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const support = new SubscribeSupport();
  support.failed();
  assert.equal(support.use(), false);
  support.watchFailed(); // the server was dead
  assert.equal(support.use(), true);
  support.failed();
  support.watchWorked();
  now = 299_999;
  assert.equal(support.use(), false);
  now = 300_000;
  assert.equal(support.use(), true);
});

void test('a watch with metadata has its own stream, and names the program', { timeout: 300_000 }, async () => {
  let tenants: unknown[] = [];
  let arrived = () => {};
  const asked = new Promise<void>((resolve) => (arrived = resolve));
  let subscribed = 0;
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      tenants = stream.metadata.get('tenant');
      assert.equal(stream.request.subscriber?.instance, `${hostname()}/${process.pid}`);
      assert.deepEqual({ ...stream.request.subscriber.labels }, { app: 'shop' });
      assert.equal(stream.request.jsonValues, true);
      arrived();
    },
    subscribe: () => {
      subscribed++;
    },
  });
  await using client = new Client(server.address, { subscriber: { labels: { app: 'shop' } } });
  await following(client, { metadata: { tenant: 'x' }, jsonValues: true }, () => asked);
  assert.deepEqual(tenants, ['x']);
  assert.equal(subscribed, 0);
});

void test('hooks and loggers that throw change nothing', { timeout: 300_000 }, async () => {
  const fail = () => {
    throw new Error('a bug of the program');
  };
  const lines: string[] = [];
  let streams = 0;
  let again = () => {};
  const third = new Promise<void>((resolve) => (again = resolve));
  await using server = await ScriptedServer.start({
    get: () => ({ object: { key: 'a' } }),
    watch: (stream) => {
      synced(stream);
      if (++streams === 3) again();
      else end(stream, refusal(status.INTERNAL));
    },
  });
  const warn = (message: string) => {
    lines.push(message);
    fail();
  };
  await using client = new Client(server.address, {
    logger: { info: warn, warn },
    observer: { request: fail, watchOpened: fail, watchReceived: fail, watchInterrupted: fail, watchEnded: fail },
  });
  await client.resource('config').get('a');
  await following(client, {}, () => third);
  assert.equal(lines.filter((line) => line === 'a watch was interrupted').length, 2);
});

void test('watches that are lost together are logged together', { timeout: 300_000 }, async () => {
  const lines: [string, unknown][] = [];
  let logged = () => {};
  const both = new Promise<void>((resolve) => (logged = resolve));
  let starts = 0;
  let alones = 0;
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      if (++alones === 1) end(stream, refusal(status.ABORTED));
    },
    subscribe: (stream) => {
      stream.sendMetadata(new Metadata());
      stream.on('data', ({ request }: SubscribeRequest) => {
        if (request.case === 'start' && ++starts === 3) stream.emit('error', refusal(status.INTERNAL));
      });
    },
  });
  const info = (message: string, { watches }: Readonly<Record<string, unknown>>) => {
    lines.push([message, watches]);
    if (lines.length === 2) logged();
  };
  await using client = new Client(server.address, { logger: { info, warn: info } });
  const alone = { metadata: { tenant: 'x' } };
  await following(client, {}, () => following(client, {}, () => following(client, {}, () => following(client, alone, () => both))));
  assert.deepEqual(lines.sort(), [
    ['a watch was interrupted', undefined],
    ['watches were interrupted', 3],
  ]);
});

void test('a watch goes on while no server can be reached, and tells so', { timeout: 300_000 }, async () => {
  const interruptions = new Interruptions();
  let address: string;
  {
    await using gone = await SilentServer.start();
    address = gone.address;
  }
  await using client = new Client(address, { observer: interruptions.observer });
  await following(client, {}, () => interruptions.delays(3));
  assert.equal(interruptions.events[0]?.code, 'UNAVAILABLE');
});

for (const carrier of ['subscribe', 'watch'] as const) {
  void test(`refused watches use one connection to each server, with ${carrier}`, { timeout: 300_000 }, async (t) => {
    t.mock.method(Math, 'random', () => 0); // no delays
    const watches = 20;
    const refusals = 20 * watches;
    const start = async () => {
      const peers = new Set<string>();
      const server = await ScriptedServer.start({
        [carrier]: (stream: WatchStream | SubscribeStream) => {
          peers.add(stream.getPeer());
          if (carrier === 'watch') {
            end(stream as WatchStream, refusal(status.RESOURCE_EXHAUSTED));
            return;
          }
          const subscriber = stream as SubscribeStream;
          subscriber.sendMetadata(new Metadata());
          subscriber.on('data', ({ request }: SubscribeRequest) => {
            if (request.case !== 'start') return;
            const refused = { code: status.RESOURCE_EXHAUSTED, message: 'refused' };
            subscriber.write({ entries: [{ watchIds: [request.value.watchId], content: { case: 'refused', value: refused } }] });
          });
        },
      });
      return { server, peers };
    };
    const { server: a, peers: peersOfA } = await start();
    const { server: b, peers: peersOfB } = await start();
    await using _a = a;
    await using _b = b;
    const interruptions = new Interruptions();
    await using client = new Client([a.address, b.address], { observer: interruptions.observer });
    const all = interruptions.delays(refusals);
    await Promise.all(Array.from({ length: watches }, () => following(client, {}, () => all)));
    assert.deepEqual([peersOfA.size, peersOfB.size], [1, 1]);
    assert.deepEqual(new Set(interruptions.events.map(({ code }) => code)), new Set(['RESOURCE_EXHAUSTED']));
  });
}
