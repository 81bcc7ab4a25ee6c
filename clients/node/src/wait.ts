// Waits until watches, over all servers, have applied a revision.

import { setMaxListeners } from 'node:events';
import { performance } from 'node:perf_hooks';
import { durationMs, timestampDate } from '@bufbuild/protobuf/wkt';
import type { ConnectionPool } from './connection_pool.js';
import { Deadline, limited, within } from './deadline.js';
import { errorOfStatus } from './errors.js';
import type { WatchAppliedResponse, WatcherStatus } from './gen/fanout/v1/admin_pb.js';
import { positionOf } from './object.js';
import { scopeOf, type WaitOptions } from './options.js';
import { RecentPeak } from './recent_peak.js';
import { eachAddress, Follower, type Answer, type ServerAddress, type WaitRequest } from './wait_server.js';
import { NotReachedError, RefusedError, WaitStatus, type PendingWatch, type WaitServer } from './wait_status.js';

/** The milliseconds after which an unchanged status is passed to `progress` again. */
const beat = 1000;
/** Watches notice a silent server after 30 s, and a lost connection at once. */
const defaultSettle = 35_000;
/** A share may be a little too large, because most decimal fractions are not exact. */
const inexact = 1e-6;

/** wait implements the method of resources. */
export async function wait(pool: ConnectionPool, resource: string, revision: bigint, options: WaitOptions): Promise<WaitStatus> {
  const { progress, signal, timeout = Infinity } = options;
  const deadline = new Deadline(timeout);
  let last!: WaitStatus;
  for await (last of statuses(pool, resource, revision, options)) {
    if (!progress) continue;
    const told = limited(Promise.resolve(progress(last)), { signals: [signal, pool.closing] });
    if (!(await within(told, deadline.left))) throw new NotReachedError(last);
  }
  return last;
}

/** statuses yields each status until the wait is over. The last one has `ended` set, and means success. */
export async function* statuses(
  pool: ConnectionPool,
  resource: string,
  revision: bigint,
  options: WaitOptions,
): AsyncGenerator<WaitStatus, void, void> {
  const rules = rulesOf(options);
  const request = requestOf(resource, revision, options);
  const due = performance.now() + (options.timeout ?? Infinity);
  const answers = new Answers();
  const end = new AbortController();
  setMaxListeners(0, end.signal); // one for each server
  let pools: readonly ConnectionPool[] = [];
  let following: readonly Promise<void>[] = [];
  const signals = [pool.closing, ...(options.signal ? [options.signal] : [])];
  for (const signal of signals) {
    signal.throwIfAborted();
    signal.addEventListener('abort', () => answers.push({ server: -1, error: signal.reason as Error, final: true }), { signal: end.signal });
  }
  try {
    const servers = await eachServer(pool.addresses, options.timeout);
    const gate = new Gate(revision, servers.map(({ address }) => address), rules);
    pools = servers.map(({ address, name }) => pool.alone(address, name));
    following = pools.map((one, i) => new Follower(i, one, request, (answer) => answers.push(answer)).run(end.signal));
    for (;;) {
      const now = performance.now();
      if (now >= due) throw new NotReachedError(gate.status(now));
      const answer = await answers.next(Math.min(due - now, gate.fallsIn(now), beat));
      if (answer?.final) throw answer.error!;
      if (answer) gate.receive(answer, performance.now());
      const status = gate.status(performance.now());
      if (!answer && performance.now() >= due) throw new NotReachedError(status);
      yield status;
      if (status.failed > rules.tolerate) throw new RefusedError(status);
      if (status.ended) return;
    }
  } finally {
    end.abort();
    await Promise.all(following);
    await Promise.all(pools.map((one) => one.close()));
  }
}

function requestOf(resource: string, revision: bigint, options: WaitOptions): WaitRequest {
  if (revision < 1n) throw new RangeError(`revision ${revision}, want at least 1`);
  const { subscribers = '', instance = '', requireAll = false } = options;
  return { resource, revision, scope: scopeOf(options), subscriberSelector: subscribers, instance, requireAll };
}

/** eachServer returns the servers behind addresses, without duplicates. */
async function eachServer(addresses: readonly string[], timeout: number | undefined): Promise<readonly ServerAddress[]> {
  const all = (await Promise.all(addresses.map((address) => eachAddress(address, timeout)))).flat();
  return [...new Map(all.map((one) => [one.address, one])).values()];
}

/** Answers is a queue of answers with one reader. */
class Answers {
  readonly #waiting: Answer[] = [];
  #wake: (() => void) | undefined;

  push(answer: Answer): void {
    this.#waiting.push(answer);
    this.#wake?.();
  }

  /** next returns the next answer, or undefined after the milliseconds. */
  async next(milliseconds: number): Promise<Answer | undefined> {
    if (this.#waiting.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = undefined;
    }
    return this.#waiting.shift();
  }
}

/** What decides whether a wait has succeeded. */
export interface Rules {
  readonly quorum: number;
  readonly tolerate: number;
  readonly minWatches: number;
  readonly allowMissingServers: boolean;
  readonly settle: number;
}

/** rulesOf returns the rules with their defaults. */
export function rulesOf(options: WaitOptions): Rules {
  const { quorum = 1, tolerate = 0, minWatches = 1, allowMissingServers = false, settle = defaultSettle } = options;
  if (!(quorum > 0 && quorum <= 1)) throw new RangeError(`quorum ${quorum}, want more than 0 and at most 1`);
  for (const [name, value] of Object.entries({ tolerate, minWatches, settle })) {
    if (!(value >= 0)) throw new RangeError(`${name} ${value}, want at least 0`);
  }
  return { quorum, tolerate, minWatches, allowMissingServers, settle };
}

/** The last response of a server. */
interface Latest {
  readonly response: WatchAppliedResponse;
  readonly at: number;
}

/** Gate evaluates the answers of the servers. */
export class Gate {
  readonly #revision: bigint;
  readonly #rules: Rules;
  readonly #servers: WaitServer[];
  readonly #latest: (Latest | undefined)[] = [];
  readonly #peak: RecentPeak;

  constructor(revision: bigint, addresses: readonly string[], rules: Rules) {
    this.#revision = revision;
    this.#rules = rules;
    const nothing = { answered: false, answering: false, error: undefined, watches: 0, applied: 0, failed: 0, notReporting: 0 };
    this.#servers = addresses.map((address) => ({ address, ...nothing }));
    this.#peak = new RecentPeak(rules.settle);
  }

  /** receive stores an answer. */
  receive({ server: i, response, error }: Answer, now: number): void {
    const server = this.#servers[i]!;
    if (!response) {
      this.#servers[i] = { ...server, answering: false, error };
      return;
    }
    this.#latest[i] = { response, at: now };
    this.#servers[i] = {
      address: server.address,
      answered: true,
      answering: true,
      error: undefined,
      watches: Number(response.watches),
      applied: Number(response.applied),
      failed: Number(response.failed),
      notReporting: Number(response.notReporting),
    };
  }

  /** status adds up the answers. */
  status(now: number): WaitStatus {
    const sum = { watches: 0, applied: 0, failed: 0, notReporting: 0 };
    const pending: PendingWatch[] = [];
    const uncounted: PendingWatch[] = [];
    let newest = 0n;
    for (const [i, server] of this.#servers.entries()) {
      const latest = this.#latest[i];
      if (!latest) continue;
      const { response, at } = latest;
      const reached = response.position?.revision ?? 0n;
      if (reached > newest) newest = reached;
      if (!server.answering) continue;
      for (const name of ['watches', 'applied', 'failed', 'notReporting'] as const) sum[name] += server[name];
      // Those that have failed come first. A server is silent while nothing changes.
      pending.push(...response.pending.map((w, n) => pendingWatch(server.address, w, n < server.failed, now - at)));
      uncounted.push(...response.notReportingWatchers.map((w) => pendingWatch(server.address, w, false, now - at)));
    }
    this.#peak.set(now, sum.watches);
    const recentWatches = this.#peak.max(now);
    const required = this.#required(Math.max(recentWatches, this.#rules.minWatches), sum.failed);
    return new WaitStatus({
      revision: this.#revision,
      ended: sum.failed > this.#rules.tolerate || this.#isReached(sum, required),
      newest,
      ...sum,
      recentWatches,
      required,
      pending: pending.sort(comparePending),
      uncounted: uncounted.sort(comparePending),
      servers: [...this.#servers],
    });
  }

  /** fallsIn returns the milliseconds until the number of recent watches becomes smaller. */
  fallsIn(now: number): number {
    return (this.#peak.falls() ?? Infinity) - now;
  }

  /**
   * #required returns how many watches must have applied the revision. If there are any, one at least must have, even if
   * all others have failed.
   */
  #required(watches: number, failed: number): number {
    if (watches === 0) return 0;
    const counted = watches - Math.min(failed, this.#rules.tolerate, watches);
    return Math.max(1, Math.ceil(this.#rules.quorum * counted - inexact));
  }

  #isReached(sum: { readonly watches: number; readonly applied: number }, required: number): boolean {
    const unknown = ({ answered, error }: WaitServer) => !answered && (!this.#rules.allowMissingServers || !error);
    if (this.#servers.some(unknown) || !this.#servers.some(({ answering }) => answering)) return false;
    return sum.watches >= this.#rules.minWatches && sum.applied >= required;
  }
}

/** pendingWatch returns a watch that a server has named some milliseconds ago. */
function pendingWatch(server: string, w: WatcherStatus, mayHaveFailed: boolean, age: number): PendingWatch {
  const { id, identity, peer, userAgent, failedKeys } = w;
  const instance = w.subscriber?.instance ?? '';
  const error = w.error && errorOfStatus(w.error);
  const lag = w.appliedLag ? durationMs(w.appliedLag) : 0;
  return {
    name: instance || `${identity} ${peer}`.trim() || id,
    server,
    id,
    instance,
    labels: { ...w.subscriber?.labels },
    identity,
    peer,
    userAgent,
    since: w.since ? timestampDate(w.since) : new Date(0),
    applied: positionOf(w.applied),
    appliedLag: lag > 0 ? lag + age : 0,
    error,
    errorTime: error && w.errorTime && timestampDate(w.errorTime),
    failed: mayHaveFailed && error !== undefined,
    failedKeys,
  };
}

/** comparePending orders watches as the servers do. */
function comparePending(a: PendingWatch, b: PendingWatch): number {
  const rank = ({ failed, error }: PendingWatch) => (failed ? 0 : error ? 1 : 2);
  return rank(a) - rank(b) || a.since.getTime() - b.since.getTime();
}
