// Waiting until watches have applied a revision, with real servers.

import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  Client,
  codes,
  FanoutError,
  jsonDecoder,
  NotReachedError,
  RefusedError,
  type Informer,
  type Resource,
  type WaitOptions,
  type WaitStatus,
} from '../src/index.js';
import { StatusSchema } from '../src/gen/google/rpc/status_pb.js';
import { WatchAppliedResponseSchema, WatcherStatusSchema } from '../src/gen/fanout/v1/admin_pb.js';
import { RecentPeak } from '../src/recent_peak.js';
import { TestServer } from '../src/testing.js';
import { Gate, rulesOf } from '../src/wait.js';
import { eachAddress } from '../src/wait_server.js';

/** The program, which `make test-node` builds. */
const program = resolve(process.env.FANOUTTEST ?? '../../bin/fanouttest');
const timeout = 300_000;

/** Fixture has the servers and clients of one test. */
class Fixture implements AsyncDisposable {
  readonly #ends: (() => Promise<void>)[] = [];

  async server(): Promise<TestServer> {
    const server = await TestServer.start({ program });
    this.#ends.push(() => server.close());
    return server;
  }

  client(servers: readonly TestServer[], instance = 'test', labels: Record<string, string> = {}): Client {
    const client = new Client(servers.map(({ address }) => address), { insecure: true, subscriber: { instance, labels } });
    this.#ends.push(() => client.close());
    return client;
  }

  config(...servers: TestServer[]): Resource {
    return this.client(servers).resource('config');
  }

  /** subscriber runs an informer of numbers. */
  async subscriber(
    server: TestServer,
    instance: string,
    { prefix, ...labels }: { prefix?: string; team?: string } = {},
  ): Promise<Informer<number>> {
    const decode = jsonDecoder<number>();
    const informer = this.client([server], instance, labels).resource('config').informer({ prefix, decode });
    await informer.start().waitForSync();
    return informer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }
}

/** notReached waits in vain for so long that the status is known, which takes a while on a busy machine. */
async function notReached(
  config: Resource,
  revision: bigint,
  known: (status: WaitStatus) => boolean,
  options: WaitOptions = {},
): Promise<NotReachedError> {
  for (let limit = 500; ; limit *= 10) {
    const error: unknown = await config.wait(revision, { ...options, timeout: limit }).catch((e: unknown) => e);
    assert.ok(error instanceof NotReachedError);
    if (known(error.status) || limit > timeout) return error;
  }
}

void test('the quorum is reached', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  await fixture.subscriber(server, 'one');
  await fixture.subscriber(server, 'two');
  const config = fixture.config(server);
  const { revision } = await config.put('a', '1');
  const seen: WaitStatus[] = [];
  const status = await config.wait(revision, { minWatches: 2, timeout, progress: (s) => seen.push(s) });
  assert.equal(status.toString(), `2 of 2 watches have applied revision ${revision}`);
  assert.deepEqual([seen.at(-1), status.ended, status.missing], [status, true, []]);
  assert.ok(seen.slice(0, -1).every(({ ended }) => !ended));
});

void test('a watch refuses the revision', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  await fixture.subscriber(server, 'good', { prefix: 'b' });
  await fixture.subscriber(server, 'bad', { team: 'x' });
  const config = fixture.config(server);
  const { revision } = await config.put('a', 'many', { contentType: 'text/plain' });
  const error: unknown = await config.wait(revision, { timeout }).catch((e: unknown) => e);
  assert.ok(error instanceof RefusedError);
  assert.match(error.message, new RegExp(`^1 watch cannot apply revision ${revision}: bad: .*many`));
  const [failure] = error.failures;
  assert.deepEqual([failure?.name, failure?.labels, failure?.failedKeys], ['bad', { team: 'x' }, ['a']]);
  assert.deepEqual([failure?.server, failure?.failed], [server.address, true]);
  assert.ok(failure?.error instanceof FanoutError && failure.errorTime! >= failure.since);
  // It is tolerated, it is in another scope, or a selector leaves it out.
  await config.wait(revision, { tolerate: 1, timeout });
  await config.wait(revision, { prefix: 'b', timeout });
  await config.wait(revision, { instance: 'good', timeout });
  await assert.rejects(config.wait(revision, { subscribers: 'team=x', timeout }), RefusedError);
});

void test('the quorum is not reached', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  await fixture.subscriber(server, 'one');
  const config = fixture.config(server);
  const { revision } = await config.put('a', '1');
  const error = await notReached(config, revision + 1n, ({ newest }) => newest === revision);
  assert.match(error.message, /^0 of 1 watch has applied revision .*, want 1;.* does not exist yet.*; not applied by one: the timeout is over$/);
});

void test('half of the watches are enough', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  await fixture.subscriber(server, 'quick');
  const slow = await fixture.subscriber(server, 'slow');
  let go!: () => void;
  const gone = new Promise<void>((resolve) => (go = resolve));
  const called = new Promise<void>((resolve) => slow.addHandler({ add: () => (resolve(), gone) }));
  const config = fixture.config(server);
  const { revision } = await config.put('a', '1');
  await called;
  const status = await config.wait(revision, { quorum: 0.5, minWatches: 2, timeout });
  assert.deepEqual([status.applied, status.required, status.pending.map(({ name }) => name)], [1, 1, ['slow']]);
  const waiting = config.wait(revision, { minWatches: 2, timeout });
  go();
  assert.equal((await waiting).applied, 2);
});

void test('there are no watches', async () => {
  await using fixture = new Fixture();
  const config = fixture.config(await fixture.server());
  const { revision } = await config.put('a', '1');
  const error = await notReached(config, revision, ({ servers }) => servers[0]!.answering);
  assert.match(error.message, /^0 of 0 watches/);
  assert.equal((await config.wait(revision, { minWatches: 0, timeout })).watches, 0);
});

void test('watches that do not report', async () => {
  await using fixture = new Fixture();
  const config = fixture.config(await fixture.server());
  const { revision } = await config.put('a', '1');
  const watch = config.watch({ reports: false });
  await watch.next();
  const status = await config.wait(revision, { minWatches: 0, timeout });
  assert.deepEqual([status.watches, status.notReporting, status.uncounted.length], [0, 1, 1]);
  assert.match(status.toString(), /1 does not report/);
  const error = await notReached(config, revision, ({ watches }) => watches > 0, { requireAll: true });
  assert.match(error.message, /^0 of 1 watch /);
  await watch.return();
});

void test('several servers', async () => {
  await using fixture = new Fixture();
  const servers = [await fixture.server(), await fixture.server()];
  let revision = 0n;
  for (const [n, server] of servers.entries()) {
    await fixture.subscriber(server, `${n}`);
    // Both have an etcd of their own, whose revisions are the same.
    ({ revision } = await fixture.config(server).put('a', '1'));
  }
  const status = await fixture.config(...servers).wait(revision, { minWatches: 2, timeout });
  assert.deepEqual(status.servers.map(({ address, applied }) => [address, applied]), servers.map(({ address }) => [address, 1]));
});

void test('a server is missing', async () => {
  await using fixture = new Fixture();
  const [good, missing] = [await fixture.server(), await fixture.server()];
  await fixture.subscriber(good, 'one');
  const { revision } = await fixture.config(good).put('a', '1');
  await missing.stop();
  const config = fixture.config(good, missing);
  const { message, status } = await notReached(config, revision, ({ servers }) => servers[0]!.answering);
  assert.match(message, new RegExp(`no answer from ${missing.address}`));
  assert.deepEqual(status.missing.map(({ address }) => address), [missing.address]);
  const without = await config.wait(revision, { allowMissingServers: true, timeout });
  assert.ok(without.missing[0]?.error instanceof FanoutError);
  // It comes back while the wait goes on.
  const waiting = config.wait(revision, { timeout });
  await missing.start();
  assert.deepEqual((await waiting).missing, []);
});

for (const [settle, required] of [[1e9, 2], [0, 1]] as const) {
  void test(`a watch that has ended counts for ${settle} ms`, async () => {
    await using fixture = new Fixture();
    const server = await fixture.server();
    const one = await fixture.subscriber(server, 'one');
    await fixture.subscriber(server, 'other');
    const config = fixture.config(server);
    const { revision } = await config.put('a', '1');
    // One of two watches ends, and the other one has applied the revision.
    let ended = false;
    let over = false;
    const waiting = config.wait(revision + 1n, {
      timeout,
      settle,
      progress: async ({ watches, applied, required: wanted }) => {
        if (watches === 2 && !ended) {
          ended = true;
          await one.close();
          await config.put('a', '2');
        } else if (watches === 1 && applied === 1 && !over) {
          over = true;
          assert.equal(wanted, required);
          if (required === 2) await fixture.subscriber(server, 'one'); // it was on its way
        }
      },
    });
    assert.equal((await waiting).applied, required);
    assert.ok(over);
  });
}

void test('the error of a server is final', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  const client = fixture.client([server]);
  await assert.rejects(client.resource('nothing').wait(1n), { reason: 'UNKNOWN_RESOURCE' });
  await assert.rejects(client.resource('config').wait(1n, { subscribers: '!!' }), { reason: 'INVALID_REQUEST' });
  await server.refuse(codes.PERMISSION_DENIED, 'PERMISSION_DENIED');
  await assert.rejects(client.resource('config').wait(1n), { reason: 'PERMISSION_DENIED' });
});

void test('other errors are retried', async () => {
  await using fixture = new Fixture();
  const server = await fixture.server();
  await fixture.subscriber(server, 'one');
  const config = fixture.config(server);
  const { revision } = await config.put('a', '1');
  await server.refuse(codes.UNAVAILABLE, 'NOT_READY');
  const status = await config.wait(revision, {
    timeout,
    progress: async ({ servers }) => {
      if (!(servers[0]!.error instanceof FanoutError)) return;
      assert.equal(servers[0]!.error.reason, 'NOT_READY');
      await server.accept();
    },
  });
  assert.ok(status.ended);
});

void test('what else ends a wait', { timeout: 300_000 }, async () => {
  await using fixture = new Fixture();
  const client = fixture.client([await fixture.server()]);
  const config = client.resource('config');
  await assert.rejects(config.wait(1n, { progress: () => Promise.reject(new Error('mine')) }), /mine/);
  const end = new AbortController();
  const reason = new Error('enough');
  await assert.rejects(config.wait(1n, { signal: end.signal, progress: () => end.abort(reason) }), reason);
  await assert.rejects(config.wait(1n, { signal: end.signal }), reason);
  const never = () => new Promise(() => {});
  const later = new AbortController();
  const hanging = (end: () => void) => () => {
    end();
    return never();
  };
  await assert.rejects(config.wait(1n, { signal: later.signal, progress: hanging(() => later.abort(reason)) }), reason);
  await assert.rejects(config.wait(1n, { timeout: 10, progress: never }), NotReachedError);
  const other = fixture.client([await fixture.server()]);
  await assert.rejects(other.resource('config').wait(1n, { progress: hanging(() => void other.close()) }), { reason: 'CLIENT_CLOSED' });
  let began!: () => void;
  const begun = new Promise<void>((resolve) => (began = resolve));
  const waiting = assert.rejects(config.wait(1n, { progress: began }), { reason: 'CLIENT_CLOSED' });
  await begun;
  await client.close();
  await waiting;
  await assert.rejects(config.wait(1n), { reason: 'CLIENT_CLOSED' });
});

void test('invalid options', async () => {
  await using fixture = new Fixture();
  const config = fixture.config(await fixture.server());
  for (const options of [{ quorum: 0 }, { quorum: 1.1 }, { quorum: NaN }, { tolerate: -1 }, { minWatches: -1 }, { settle: -1 }]) {
    await assert.rejects(config.wait(1n, options), RangeError);
  }
  await assert.rejects(config.wait(1n, { prefix: 'a', key: 'b' }), TypeError);
  await assert.rejects(config.wait(0n), RangeError);
});

// The rules are those of the client for Go.

void test('the required number', () => {
  for (const [quorum, tolerate, watches, failed, required] of [
    [1, 0, 5, 0, 5],
    [1, 0, 5, 2, 5],
    [1, 1, 5, 2, 4],
    [1, 9, 5, 5, 1],
    [0.99, 0, 100, 0, 99],
    [0.99, 0, 101, 0, 100],
    [0.07, 0, 100, 0, 7],
    [0.5, 2, 10, 2, 4],
    [0.001, 0, 5, 0, 1],
    [0.9999999, 0, 1_000_000, 0, 1_000_000],
  ] as const) {
    const gate = new Gate(1n, ['a'], rulesOf({ quorum, tolerate }));
    gate.receive({ server: 0, response: create(WatchAppliedResponseSchema, { watches: BigInt(watches), failed: BigInt(failed) }) }, 0);
    assert.equal(gate.status(0).required, required, `${quorum} ${tolerate} ${watches} ${failed}`);
  }
  assert.equal(new Gate(1n, ['a'], rulesOf({ minWatches: 0 })).status(0).required, 0);
});

void test('the recent peak', () => {
  const peak = new RecentPeak(10);
  for (const [second, n, most, falls] of [
    [0, 5, 5, undefined],
    [1, 9, 9, undefined],
    [2, 7, 9, 12],
    [3, 4, 9, 12],
    [4, 6, 9, 12],
    [12, undefined, 7, 13],
    [13, undefined, 6, undefined],
    [50, undefined, 6, undefined],
    [51, 2, 6, 61],
    [52, 6, 6, undefined],
    [53, 3, 6, 63],
    [54, 8, 8, undefined],
  ] as const) {
    if (n !== undefined) peak.set(second, n);
    assert.deepEqual([peak.max(second), peak.falls()], [most, falls], `second ${second}`);
  }
});

void test('a server that answers no more does not count', () => {
  const gate = new Gate(7n, ['a', 'b'], rulesOf({}));
  const response = create(WatchAppliedResponseSchema, { watches: 2n, applied: 2n });
  gate.receive({ server: 0, response }, 0);
  assert.equal(gate.status(0).ended, false); // the other one may have more
  gate.receive({ server: 1, response }, 0);
  assert.equal(gate.status(0).ended, true);
  gate.receive({ server: 1, error: new Error('gone') }, 1);
  const { watches, recentWatches, applied, required, ended } = gate.status(1);
  assert.deepEqual({ watches, recentWatches, applied, required, ended }, { watches: 2, recentWatches: 4, applied: 2, required: 4, ended: false });
  assert.equal(gate.fallsIn(1), 35_000);
  assert.equal(gate.status(35_001).ended, true);
  gate.receive({ server: 0, error: new Error('gone') }, 35_001);
  assert.equal(gate.status(100_000).ended, false); // never while no server answers
});

void test('the pending watches are in order', () => {
  const watch = (id: string, since: number, message = '') =>
    create(WatcherStatusSchema, { id, since: timestampFromMs(since), ...(message && { error: create(StatusSchema, { message }) }) });
  const gate = new Gate(7n, ['a', 'b'], rulesOf({}));
  const pending = [watch('failed', 5, 'e'), watch('earlier', 3, 'e'), watch('old', 1), watch('new', 4)];
  gate.receive({ server: 0, response: create(WatchAppliedResponseSchema, { watches: 4n, failed: 1n, pending }) }, 0);
  gate.receive({ server: 1, response: create(WatchAppliedResponseSchema, { watches: 1n, pending: [watch('older', 0)] }) }, 0);
  const status = gate.status(0);
  assert.deepEqual(status.pending.map(({ name }) => name), ['failed', 'earlier', 'older', 'old', 'new']);
  assert.deepEqual(status.pending.map(({ failed }) => failed), [true, false, false, false, false]);
  assert.equal(status.detail(), '0 of 5 watches have applied revision 7, 1 failed, want 5; not applied by failed, earlier, older and 2 more');
});

void test('each address of a DNS name is a server', async () => {
  const each = (address: string, ...found: string[]) =>
    eachAddress(address, timeout, () => Promise.resolve(found.map((ip) => ({ address: ip, family: ip.includes(':') ? 6 : 4 }))));
  const name = 'f.example.com';
  for (const address of ['f.example.com:7420', 'dns:///f.example.com:7420']) {
    const want = [{ address: '10.0.0.1:7420', name }, { address: '10.0.0.2:7420', name }];
    assert.deepEqual(await each(address, '10.0.0.2', 'fd00::1', '10.0.0.1'), want);
  }
  const want = [{ address: '[fd00::1]:7420', name }, { address: '[fd00::2]:7420', name }];
  assert.deepEqual(await each('f.example.com:7420', 'fd00::1', '10.0.0.1', 'fd00::2'), want);
  assert.deepEqual(await each('f.example.com:7420', '10.0.0.1'), [{ address: 'f.example.com:7420' }]);
  for (const address of ['localhost:1', '10.0.0.9:1', '[::1]:1', 'unix:/run/f.sock', 'unix:///run/f.sock']) {
    assert.deepEqual(await each(address, '10.0.0.1', '10.0.0.2'), [{ address }]);
  }
  const unknown = () => Promise.reject(new Error('no such host'));
  assert.deepEqual(await eachAddress('f.example.com:1', timeout, unknown), [{ address: 'f.example.com:1' }]);
  assert.deepEqual(await eachAddress('f.example.com:1', 0, () => new Promise(() => {})), [{ address: 'f.example.com:1' }]);
});
