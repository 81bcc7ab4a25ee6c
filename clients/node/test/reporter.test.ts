// When reports are sent, also after some have failed.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Metadata, status } from '@grpc/grpc-js';
import type { OpenWatch, Report } from '../src/carrier.js';
import { ConnectionPool } from '../src/connection_pool.js';
import { FanoutError } from '../src/errors.js';
import { Reporter } from '../src/reporter.js';
import { refusal, ScriptedServer, synced } from './scripted.js';

const at = (revision: number) => ({ applied: { epoch: 'e', revision: BigInt(revision) } });
const failure = (code: status, retryAfter?: number) => new FanoutError({ code, message: 'refused', retryAfter });

/** Time that passes only when a test says so, and in which random delays are as long as they can be. */
class Clock {
  readonly #t: TestContext;

  constructor(t: TestContext) {
    this.#t = t;
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
    t.mock.method(performance, 'now', () => Date.now());
    t.mock.method(Math, 'random', () => 1);
  }

  get seconds(): number {
    return Date.now() / 1000;
  }

  async pass(seconds: number): Promise<void> {
    for (let n = 0; n < seconds * 10; n++) {
      this.#t.mock.timers.tick(100);
      await setImmediate();
    }
  }
}

/** A stream that notes when it gets a report, and of which revision. */
class Stream implements OpenWatch {
  readonly reports: { at: number; revision: number; attempted: bigint | undefined }[] = [];
  readonly #clock: Clock;
  readonly #answer: (n: number) => FanoutError | undefined | Promise<undefined>;
  readonly pausable = true;
  readonly stop = () => {};
  readonly pause = () => {};
  readonly resume = () => {};

  constructor(clock: Clock, answer: (n: number) => FanoutError | undefined | Promise<undefined> = () => undefined) {
    this.#clock = clock;
    this.#answer = answer;
  }

  async report({ applied, attempted }: Report): Promise<FanoutError | undefined> {
    this.reports.push({ at: Math.round(this.#clock.seconds), revision: Number(applied?.revision), attempted: attempted?.revision });
    return this.#answer(this.reports.length);
  }

  get times(): number[] {
    return this.reports.map((report) => report.at);
  }

  get revisions(): number[] {
    return this.reports.map((report) => report.revision);
  }
}

void test('a report with an error says what was attempted, also if that is nothing', async (t) => {
  const clock = new Clock(t);
  const stream = new Stream(clock);
  const reporter = new Reporter();
  reporter.set({ applied: undefined, error: 'no' });
  reporter.opened(stream);
  await clock.pass(2);
  reporter.set({ ...at(1), attempted: { epoch: 'e', revision: 2n }, error: 'no' });
  await clock.pass(2);
  reporter.set(at(3));
  await clock.pass(2);
  assert.deepEqual(stream.reports.map(({ attempted }) => attempted), [0n, 2n, undefined]);
});

void test('after failed reports, the random delay grows up to a minute, and is short again after one that succeeds', async (t) => {
  const clock = new Clock(t);
  const stream = new Stream(clock, (n) => (n === 9 ? undefined : failure(status.RESOURCE_EXHAUSTED)));
  const reporter = new Reporter();
  reporter.set(at(1));
  reporter.opened(stream);
  await clock.pass(194);
  reporter.set(at(2));
  await clock.pass(70);
  // 1 s and up to 1, 2, 4, 8, 16, 32, 60, 60 s; after the success, 1 s and up to 1, 2, 4 … s.
  assert.deepEqual(stream.times.slice(0, 12), [0, 2, 5, 10, 19, 36, 69, 130, 191, 194, 196, 199]);
  assert.deepEqual(stream.revisions.slice(8, 10), [1, 2]);
});

void test('the delay is random', async (t) => {
  const clock = new Clock(t);
  t.mock.method(Math, 'random', () => 0);
  const stream = new Stream(clock, () => failure(status.UNAVAILABLE));
  const reporter = new Reporter();
  reporter.opened(stream);
  reporter.set(at(1));
  await clock.pass(4.5);
  assert.deepEqual(stream.times, [0, 1, 2, 3, 4]);
});

void test('a server can ask for a longer delay', async (t) => {
  const clock = new Clock(t);
  const stream = new Stream(clock, () => failure(status.RESOURCE_EXHAUSTED, 30_000));
  const reporter = new Reporter();
  reporter.opened(stream);
  reporter.set(at(1));
  await clock.pass(70);
  assert.deepEqual(stream.times, [0, 31, 63]);
});

void test('the delay is short again on a new stream', async (t) => {
  const clock = new Clock(t);
  const failing = () => new Stream(clock, () => failure(status.INTERNAL));
  const [first, second] = [failing(), failing()];
  const reporter = new Reporter();
  reporter.set(at(1));
  reporter.opened(first);
  await clock.pass(75);
  reporter.opened(undefined);
  reporter.opened(second);
  await clock.pass(10);
  assert.equal(first.times.at(-1), 69);
  assert.deepEqual(second.times, [76, 78, 81]);
});

void test('the answer to a report of an earlier stream is not awaited, and changes nothing', async (t) => {
  const clock = new Clock(t);
  let answer = (_: undefined) => {};
  const first = new Stream(clock, () => new Promise<undefined>((resolve) => (answer = resolve)));
  const second = new Stream(clock, (n) => (n < 3 ? failure(status.INTERNAL) : undefined));
  const reporter = new Reporter();
  reporter.set(at(1));
  reporter.opened(first);
  await clock.pass(3);
  reporter.opened(undefined);
  reporter.opened(second);
  await clock.pass(1);
  answer(undefined);
  await clock.pass(10);
  assert.deepEqual([first.times, second.times], [[0], [3, 5, 8]]);
});

void test('an invalid report is not sent again', async (t) => {
  const clock = new Clock(t);
  const stream = new Stream(clock, (n) => (n === 1 ? failure(status.INVALID_ARGUMENT) : undefined));
  const reporter = new Reporter();
  reporter.opened(stream);
  reporter.set(at(1));
  await clock.pass(60);
  assert.deepEqual(stream.revisions, [1]);
  reporter.set(at(2));
  await clock.pass(60);
  assert.deepEqual(stream.revisions, [1, 2]);
});

for (const code of [status.UNIMPLEMENTED, status.NOT_FOUND]) {
  void test(`${status[code]} ends the reports on this stream`, async (t) => {
    const clock = new Clock(t);
    const [first, second] = [new Stream(clock, () => failure(code)), new Stream(clock)];
    const reporter = new Reporter();
    reporter.opened(first);
    for (let revision = 1; revision <= 30; revision++) {
      reporter.set(at(revision));
      await clock.pass(2);
    }
    assert.deepEqual(first.revisions, [1]);
    reporter.opened(undefined);
    reporter.opened(second);
    await clock.pass(2);
    assert.deepEqual(second.revisions, [30]);
  });
}

void test('a stream tells why a report has failed', { timeout: 300_000 }, async () => {
  const answers = [
    refusal(status.NOT_FOUND, 'WATCH_NOT_FOUND'),
    refusal(status.UNIMPLEMENTED),
    refusal(status.RESOURCE_EXHAUSTED, 'RATE_LIMITED', 3000),
  ];
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      const header = new Metadata();
      header.set('fanout-watch', 'one');
      stream.sendMetadata(header);
      synced(stream);
    },
    report: ({ watch }) => {
      assert.equal(watch, 'one');
      const answer = answers.shift();
      if (answer) throw answer;
      return {};
    },
  });
  const pool = new ConnectionPool([server.address], { insecure: true });
  const connection = await pool.connect({});
  let watch: OpenWatch | undefined;
  await new Promise<void>((resolve, reject) => {
    // With metadata, the watch has a stream of its own.
    watch = connection.watch({ resource: 'config' }, { asked: () => {}, message: () => resolve(), end: reject }, { own: 'yes' });
  });
  const results = [];
  for (let n = 0; n < 4; n++) results.push(await watch!.report(at(1)));
  assert.deepEqual(
    results.map((error) => error && [error.codeName, error.reason, error.retryAfter]),
    [['NOT_FOUND', 'WATCH_NOT_FOUND', undefined], ['UNIMPLEMENTED', undefined, undefined], ['RESOURCE_EXHAUSTED', 'RATE_LIMITED', 3000], undefined],
  );
  await pool.close();
});
