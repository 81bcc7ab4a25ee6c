// Watches that informers share.

import { toBinary, create } from '@bufbuild/protobuf';
import { anySignal } from './abort.js';
import { CompleteUpdate } from './assembler.js';
import type { WatchStart } from './carrier.js';
import type { ConnectionPool } from './connection_pool.js';
import { WatchRequestSchema } from './gen/fanout/v1/fanout_pb.js';
import type { Position, StoredObject } from './object.js';
import type { Progress } from './reporter.js';
import { Watcher, type WatcherSettings } from './watcher.js';

/** An informer that takes part in a watch. Its methods must not wait, and must not throw. */
export interface Member {
  receive(update: CompleteUpdate): void;
  /** The watch has lost its server at a time of performance.now; without an error, before the member has joined. */
  interrupted(at: number, error: Error | undefined): void;
  /** The watch has ended with an error that no retry can help. */
  ended(error: Error): void;
  /** How far the member has applied the watch. */
  progress(): Progress;
  /** The state of the member, with the newest version of each object. Undefined if there is none yet. */
  state(): { objects: readonly StoredObject[]; position: Position; confirmedAt: number } | undefined;
}

const watchesOfPools = new WeakMap<ConnectionPool, Map<string, InformerWatch>>();

/** sharedWatches returns the watches of a client that informers can join, by what they select. */
export function sharedWatches(pool: ConnectionPool): Map<string, InformerWatch> {
  let watches = watchesOfPools.get(pool);
  if (!watches) watchesOfPools.set(pool, (watches = new Map<string, InformerWatch>()));
  return watches;
}

/**
 * A watch on the server for all informers of a client that want the same. It keeps nothing itself: an informer that
 * joins copies the state of another one. All of them have the same state, because they apply each update at once.
 */
export class InformerWatch {
  readonly #pool: ConnectionPool;
  readonly #identity: string; // empty if it is not shared
  readonly #watcher: Watcher;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #members: Member[] = [];
  #joining: Member[] = [];
  #applying = false;
  #lostAt = -Infinity;

  private constructor(pool: ConnectionPool, identity: string, settings: WatcherSettings) {
    this.#pool = pool;
    this.#identity = identity;
    this.#watcher = new Watcher(pool, settings, {
      receive: (update) => {
        this.#passOn(update);
        return true;
      },
      room: () => Promise.resolve(),
      interrupted: (error) => {
        this.#lostAt = performance.now();
        for (const member of [...this.#members]) member.interrupted(this.#lostAt, error);
      },
    });
    this.#running = this.#run();
    pool.running(this.#running);
  }

  /** join takes part in a watch. The caller must leave it. A watch that begins at a position is not shared. */
  static join(pool: ConnectionPool, settings: WatcherSettings, member: Member): { watch: InformerWatch; joined: boolean } {
    const identity = settings.after || settings.metadata ? '' : identityOf(settings.request, settings.bookmarks);
    let watch = identity ? sharedWatches(pool).get(identity) : undefined;
    if (watch) {
      if (watch.#applying) watch.#joining.push(member); // the others are between two states
      else watch.#admit(member);
      return { watch, joined: true };
    }
    watch = new InformerWatch(pool, identity, settings);
    watch.#members.push(member);
    if (identity) sharedWatches(pool).set(identity, watch);
    return { watch, joined: false };
  }

  #admit(member: Member): void {
    const state = this.#members[0]?.state();
    this.#members.push(member);
    if (state) {
      const { objects, position, confirmedAt } = state;
      const events = objects.map((object) => ({ type: 'added' as const, object, revision: object.modRevision }));
      member.receive(new CompleteUpdate({ events, replace: true, delta: false, position }, confirmedAt));
    }
    member.interrupted(this.#lostAt, undefined);
  }

  /** leave ends the part of a member. The last one ends the watch. */
  async leave(member: Member): Promise<void> {
    this.#members = this.#members.filter((other) => other !== member);
    this.#joining = this.#joining.filter((other) => other !== member);
    if (this.#members.length + this.#joining.length > 0) {
      this.progressed(); // the others may have applied more
      return;
    }
    this.#forget();
    this.#stopping.abort();
    await this.#running;
  }

  /** progressed reports how far all members have applied the watch. */
  progressed(): void {
    if (this.#applying) return;
    if (this.#members.length > 0) this.#watcher.reporter.set(this.progress());
  }

  /** progress returns how far all members have applied the watch. */
  progress(): Progress {
    return lowest(this.#members.map((member) => member.progress()));
  }

  #forget(): void {
    const watches = sharedWatches(this.#pool);
    if (watches.get(this.#identity) === this) watches.delete(this.#identity);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // the first member is there
    const { signal, release } = anySignal([this.#stopping.signal, this.#pool.closing]);
    try {
      await this.#watcher.run(signal);
    } catch (error) {
      this.#forget();
      for (const member of [...this.#members, ...this.#joining]) member.ended(error as Error);
    } finally {
      release();
    }
  }

  #passOn(update: CompleteUpdate): void {
    this.#applying = true;
    for (const member of [...this.#members]) member.receive(update);
    this.#applying = false;
    const joining = this.#joining;
    this.#joining = [];
    for (const member of joining) this.#admit(member);
    this.progressed();
  }
}

function identityOf(request: WatchStart, bookmarks: number): string {
  if (request.consistency?.level?.case === 'exactRevision') return '';
  const bytes = toBinary(WatchRequestSchema, create(WatchRequestSchema, request));
  return `${bookmarks} ${Buffer.from(bytes).toString('base64')}`;
}

/** lowest returns how far all have applied a watch. Positions of two epochs have no order. */
export function lowest(all: readonly Progress[]): Progress {
  const failing = all.find(({ error }) => error !== undefined)?.error;
  const applied = lower(all.map((progress) => progress.applied));
  if (failing === undefined) return { applied };
  const attempted = lower(all.map((progress) => (progress.error === undefined ? progress.applied : progress.attempted)));
  const keys = all.filter(({ error }) => error !== undefined).map(({ failed }) => failed);
  const failed = keys.every((some) => some !== undefined) && new Set(keys.flatMap((some) => [...some]));
  return { applied, ...(attempted && { attempted }), error: failing, ...(failed && { failed }) };
}

function lower(positions: readonly (Position | undefined)[]): Position | undefined {
  return positions.reduce((p, q) => {
    if (p?.epoch !== q?.epoch || !p || !q) return undefined;
    return q.revision < p.revision ? q : p;
  });
}

/**
 * confirm finds out what a state at a position lacks of the present one: it watches after the position until the
 * server has confirmed its own state with etcd. It returns the position from which on a state lacks nothing, and
 * undefined if the signal is aborted or the watch is refused.
 */
export async function confirm(pool: ConnectionPool, settings: WatcherSettings & { after: Position }, signal: AbortSignal): Promise<Position | undefined> {
  const asked = performance.now();
  const found = new AbortController();
  const both = anySignal([signal, found.signal]);
  let at = settings.after;
  let confirmed: Position | undefined;
  const watcher = new Watcher(pool, { ...settings, reports: false }, {
    receive: ({ events, replace, position, confirmedAt }) => {
      if (confirmed) return true;
      if (events.length > 0 || replace) at = position;
      if (confirmedAt >= asked) {
        confirmed = at;
        found.abort();
      }
      return true;
    },
    room: () => Promise.resolve(),
    interrupted: () => {},
  });
  try {
    await watcher.run(both.signal);
  } catch {
    // It was aborted, or the shared watch ends for the same reason.
  } finally {
    both.release();
  }
  return confirmed;
}
