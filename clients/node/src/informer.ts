// Informers.

import { EventEmitter } from 'node:events';
import { anySignal } from './abort.js';
import type { Update } from './assembler.js';
import type { ConnectionPool } from './connection_pool.js';
import { freshFor, transit } from './freshness.js';
import { HandlerLoop, type Change, type Handler, type Registration } from './handler.js';
import { confirm, InformerWatch, type Member } from './informer_watch.js';
import { sameObject, type Item } from './item.js';
import { earliest, type Mark } from './mark.js';
import type { Decoder, Position, StoredObject } from './object.js';
import type { InformerState } from './observer.js';
import type { FollowOptions, RequestOptions } from './options.js';
import type { Progress } from './reporter.js';
import { Saver } from './saver.js';
import { StateFile } from './state_file.js';
import { bookmarksOf, startOf } from './watch.js';
import type { WatcherSettings } from './watcher.js';

/** Options of an informer. */
export interface InformerOptions<T> extends FollowOptions {
  /** Decodes objects. Default: the value of an item is the object itself. */
  readonly decode?: Decoder<T> | undefined;
  /**
   * Keeps the newest state in a file, and begins with it, so that a program can start while no server can be reached.
   * The file has the values in plain text. Each informer needs a file of its own.
   */
  readonly lastKnownGood?: { readonly path: string; readonly maxBytes: number } | undefined;
  /** Closes the informer when it is aborted. Callers that wait for a state get the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** The events of an informer, with their arguments. */
export interface InformerEvents<T> {
  /** The copy or its position has changed. */
  change: [position: Position];
  /** The copy is as fresh as required for the first time. */
  sync: [];
  /** The stream was interrupted. The informer goes on. */
  interruption: [error: Error];
  /** An object cannot be decoded. The last version that could be is kept. */
  invalid: [object: StoredObject, error: Error, old: Item<T> | undefined];
  /** The file of `lastKnownGood` cannot be used or written. The informer goes on. */
  warning: [error: Error];
  /** The informer has ended with an error that no retry can help. */
  error: [error: Error];
  /** The informer has ended. */
  close: [];
}

/** An object whose newest version cannot be decoded. */
interface Undecoded {
  readonly object: StoredObject;
  readonly error: Error;
  readonly before: Mark;
}

/** A promise that is settled elsewhere. */
class Gate {
  readonly promise: Promise<void>;
  open!: () => void;
  fail!: (error: unknown) => void;
  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.open = resolve;
      this.fail = reject;
    });
    this.promise.catch(() => {}); // it may fail while no caller waits
  }
}

/**
 * An informer keeps a decoded copy of a selection, which is always the state at one position, and calls handlers for
 * its changes. Besides, it emits {@link InformerEvents}.
 *
 * ```ts
 * const routes = config.informer({ prefix: 'routes', decode: jsonDecoder<Route>() });
 * routes.addHandler({ update: (old, route) => reload(route.value) });
 * await routes.start().waitForSync();
 * const route = routes.get('routes/eu');
 * ```
 */
export class Informer<T> extends EventEmitter<InformerEvents<T>> implements AsyncDisposable, InformerState, Iterable<Item<T>> {
  readonly #pool: ConnectionPool;
  readonly #resource: string;
  readonly #options: InformerOptions<T>;
  readonly #decode: Decoder<T>;
  readonly #stopping = new AbortController();
  readonly #handlers = new Set<HandlerLoop<T>>();
  readonly #items = new Map<string, Item<T>>();
  readonly #undecoded = new Map<string, Undecoded>();
  readonly #hasState = new Gate();
  readonly #synced = new Gate();
  #mark: Mark = { number: 0, position: undefined };
  #version = 0;
  #asOf = 0;
  #interrupted = true;
  #startedAt = 0;
  #joined = true; // false once this informer is known to be the first of its watch
  #changed = () => {};
  #firstState = 0; // the number of the first state; 0: there is none
  #firstFresh = 0; // the same of a state that is fresh enough
  #isSynced = false;
  #waiting = 0;
  #watch: InformerWatch | undefined;
  #confirmed: { at: Position; asOf: number } | undefined; // from this position on, the state is as fresh as at this time
  #saver: Saver | undefined;
  #running: Promise<void> | undefined;

  /** @internal Use {@link Resource.informer}. */
  constructor(pool: ConnectionPool, resource: string, options: InformerOptions<T>) {
    super();
    this.#pool = pool;
    this.#resource = resource;
    this.#options = options;
    this.#decode = options.decode ?? ((object) => object as T);
  }

  /** start starts the informer. It runs until it is closed, or until an error that no retry can help. */
  start(): this {
    if (this.#running) throw new Error('the informer was started before');
    this.#startedAt = Date.now();
    this.#running = this.#run();
    this.#pool.running(this.#running);
    this.#pool.informers.add(this);
    void this.#running.finally(() => this.#pool.informers.delete(this));
    return this;
  }

  /** close ends the informer. It waits for the last call of each handler, and saves the state. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    for (const handler of this.#handlers) handler.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** get returns the item with a key. */
  get(key: string): Item<T> | undefined {
    return this.#items.get(key);
  }

  /** The name of the resource. */
  get resource(): string {
    return this.#resource;
  }

  /** The number of objects that cannot be decoded. */
  get invalid(): number {
    return this.#undecoded.size;
  }

  /** The number of changes that handlers have not accepted yet. */
  get queue(): number {
    return Array.from(this.#handlers, ({ waiting }) => waiting).reduce((sum, waiting) => sum + waiting, 0);
  }

  /** The number of items. */
  get size(): number {
    return this.#items.size;
  }

  /** All items, in no particular order. */
  [Symbol.iterator](): IterableIterator<Item<T>> {
    return this.#items.values();
  }

  /** list returns the items below a path in the order of their keys. */
  list(prefix = ''): Item<T>[] {
    const below = prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
    const found = [...this.#items.values()].filter(({ key }) => key.startsWith(below));
    return found.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** The position of the copy. Undefined if there is no state yet. */
  get position(): Position | undefined {
    return this.#mark.position;
  }

  /** The time at which the servers had no other state, in milliseconds since 1970. */
  get asOf(): number {
    return this.#asOf;
  }

  /**
   * Whether the copy may be out of date: the client has lost the servers, or they have lost etcd. It becomes true at
   * most three bookmark intervals (at least 10 s) later.
   */
  get stale(): boolean {
    return this.#interrupted || Date.now() - this.#asOf > freshFor(bookmarksOf(this.#options));
  }

  /**
   * waitForSync waits until the copy is as fresh as the consistency requires, and all handlers were called for it. It
   * throws if the informer ends before.
   */
  waitForSync(options: RequestOptions = {}): Promise<void> {
    return this.#wait(this.#synced, options);
  }

  /** waitForState waits until there is a state, which may be the saved one. */
  waitForState(options: RequestOptions = {}): Promise<void> {
    return this.#wait(this.#hasState, options);
  }

  async #wait(gate: Gate, { signal }: RequestOptions): Promise<void> {
    signal?.throwIfAborted();
    let abort = () => {};
    const aborted = new Promise<never>((_, reject) => {
      abort = () => reject(signal?.reason as Error);
      signal?.addEventListener('abort', abort, { once: true });
    });
    this.#waiting++;
    try {
      await Promise.race([gate.promise, aborted]);
    } finally {
      this.#waiting--;
      signal?.removeEventListener('abort', abort);
    }
  }

  /** addHandler adds a handler, which first gets an `add` for each present item. */
  addHandler(handler: Handler<T>): Registration {
    const loop = new HandlerLoop<T>(handler, this.#source, (removed) => {
      this.#handlers.delete(removed);
      this.#progressed();
    });
    if (this.#stopping.signal.aborted) {
      loop.stop();
      return loop;
    }
    this.#handlers.add(loop);
    const present = Array.from(this.#items.keys(), (key): Change<T> => ({ key, old: undefined }));
    loop.changed(present, { number: 0, position: undefined });
    return loop;
  }

  readonly #source = ((informer: Informer<T>) => ({
    get mark() {
      return informer.#mark;
    },
    get: (key: string) => informer.#items.get(key),
    progressed: () => informer.#progressed(),
    failed: (key: string, error: unknown, delay: number) => {
      informer.#pool.hooks.call('handlerFailed', { resource: informer.#resource, key, error, delay });
    },
  }))(this);

  async #run(): Promise<void> {
    let failure: unknown;
    const given = this.#options.signal;
    const { signal, release } = anySignal([this.#stopping.signal, this.#pool.closing, ...(given ? [given] : [])]);
    try {
      const request = startOf(this.#resource, this.#options);
      const after = await this.#load();
      signal.throwIfAborted();
      const settings = { request, bookmarks: bookmarksOf(this.#options), everyEvent: false, after, fromNow: false, reports: true, metadata: this.#options.metadata };
      const ended = new Gate();
      const member: Member = {
        receive: (update) => this.#apply(update),
        interrupted: (error) => {
          this.#interrupted = true;
          if (error) this.emit('interruption', error);
        },
        ended: (error) => ended.fail(error),
        progress: () => this.#progress(),
        state: () => this.#state(),
      };
      const { watch, joined } = InformerWatch.join(this.#pool, settings, member);
      this.#watch = watch;
      this.#joined = joined;
      const abort = () => ended.fail(signal.reason);
      signal.addEventListener('abort', abort, { once: true });
      let confirming: Promise<void> | undefined;
      const begin = () => {
        if (confirming || !this.#mark.position || this.#firstFresh > 0) return;
        confirming = this.#confirm({ ...settings, after: this.#mark.position }, signal);
      };
      if (joined && this.#options.consistency === undefined) {
        // The watch began before the informer, so its state may be older.
        this.#changed = begin;
        begin();
      }
      try {
        await ended.promise;
      } finally {
        this.#changed = () => {};
        await watch.leave(member);
        await confirming;
      }
    } catch (error) {
      failure = error;
    } finally {
      release();
    }
    this.#interrupted = true;
    const closed = signal.aborted;
    const ended = this.#stopping.signal.aborted ? new Error('the informer is closed') : failure;
    this.#stopping.abort(); // a handler that is added from now on gets no calls
    for (const handler of this.#handlers) handler.stop();
    await Promise.all(Array.from(this.#handlers, (handler) => handler.done));
    await this.#saver?.stop();
    // Callers that wait get the error.
    const unseen = this.#waiting === 0;
    this.#hasState.fail(ended);
    this.#synced.fail(ended);
    process.nextTick(() => {
      // As with streams, an error without a listener ends the process, unless a waiter got it.
      if (!closed && (unseen || this.listenerCount('error') > 0)) this.emit('error', failure as Error);
      this.emit('close');
    });
  }

  /** #load begins with the saved state, and returns its position. */
  async #load(): Promise<Position | undefined> {
    const { lastKnownGood } = this.#options;
    if (!lastKnownGood) return undefined;
    const { consistency: _, ...watch } = startOf(this.#resource, this.#options);
    const file = new StateFile(lastKnownGood.path, lastKnownGood.maxBytes, watch);
    this.#saver = new Saver(
      file,
      () => ({ position: this.#mark.position, version: this.#version, objects: () => this.#objects() }),
      (error) => this.emit('warning', error),
    );
    let saved;
    try {
      saved = await file.read();
    } catch (error) {
      this.emit('warning', error as Error);
    }
    if (!saved || saved.position.revision === 0n) return undefined;
    const changes: Change<T>[] = [];
    for (const object of saved.objects) this.#put(object, changes);
    this.#publish(saved.position, changes);
    this.#saver.loaded();
    return saved.position;
  }

  /** #objects yields what is saved. The last version that can be decoded precedes one that cannot. */
  *#objects(): Generator<StoredObject, void, void> {
    for (const { object } of this.#items.values()) yield object;
    for (const { object } of this.#undecoded.values()) yield object;
  }

  #apply(update: Update): void {
    const changes: Change<T>[] = [];
    if (update.replace) {
      const present = new Set(update.events.map(({ object }) => object.key));
      for (const key of [...this.#items.keys(), ...this.#undecoded.keys()]) {
        if (!present.has(key)) this.#remove(key, changes);
      }
    }
    for (const { type, object } of update.events) {
      if (type === 'deleted') this.#remove(object.key, changes);
      else this.#put(object, changes);
    }
    const { at, asOf } = this.#confirmed ?? { asOf: 0 };
    const proven = at?.epoch === update.position.epoch && at.revision <= update.position.revision;
    this.#asOf = proven ? Math.max(update.asOf, asOf) : update.asOf;
    this.#interrupted = false;
    if (this.#firstFresh === 0 && (proven || this.#isFresh(update))) this.#firstFresh = this.#mark.number + 1;
    this.#publish(update.position, changes);
  }

  /** #confirm proves with a short watch that the state has everything that was written before. */
  async #confirm(settings: WatcherSettings & { after: Position }, signal: AbortSignal): Promise<void> {
    const asOf = Date.now();
    const at = await confirm(this.#pool, settings, signal);
    const position = this.#mark.position;
    if (!at || !position || signal.aborted) return;
    this.#confirmed = { at, asOf };
    // Otherwise the update that reaches this position proves it.
    if (at.epoch === position.epoch && at.revision <= position.revision) {
      const interrupted = this.#interrupted;
      this.#apply({ events: [], replace: false, delta: false, position, asOf: this.#asOf });
      this.#interrupted = interrupted; // it says nothing about the shared watch
    }
  }

  /** #state returns what another informer needs to begin with this state. */
  #state(): ReturnType<Member['state']> {
    const { position } = this.#mark;
    if (!position) return undefined;
    const objects = Array.from(this.#items.values(), ({ key, object }) => this.#undecoded.get(key)?.object ?? object);
    for (const [key, { object }] of this.#undecoded) if (!this.#items.has(key)) objects.push(object);
    return { objects, position, asOf: this.#asOf };
  }

  #isFresh({ position, asOf }: Update): boolean {
    const { consistency } = this.#options;
    if (typeof consistency === 'object') {
      return 'minRevision' in consistency ? position.revision >= consistency.minRevision : true;
    }
    // A message that a joined watch receives now may have been on its way since before the start.
    return consistency === 'any' || asOf - (this.#joined ? transit : 0) >= this.#startedAt;
  }

  #remove(key: string, changes: Change<T>[]): void {
    const old = this.#items.get(key);
    const before = this.#undecoded.get(key)?.before;
    if (this.#undecoded.delete(key) || old) this.#version++;
    if (!old) return;
    this.#items.delete(key);
    changes.push({ key, old, before });
  }

  #put(object: StoredObject, changes: Change<T>[]): void {
    const { key } = object;
    const old = this.#items.get(key);
    const undecoded = this.#undecoded.get(key);
    if (sameObject(undecoded?.object ?? old?.object, object)) return; // a RESET repeats objects
    this.#version++;
    let value: T;
    try {
      value = this.#decode(object);
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      this.#undecoded.set(key, { object, error, before: undecoded?.before ?? this.#mark });
      if (old) this.#items.set(key, { ...old, invalid: error });
      this.emit('invalid', object, error, old);
      return;
    }
    this.#undecoded.delete(key);
    this.#items.set(key, { key, value, object, invalid: undefined });
    changes.push({ key, old, before: undecoded?.before });
  }

  /** #publish makes the items the state at a position. */
  #publish(position: Position, changes: readonly Change<T>[]): void {
    const before = this.#mark;
    this.#mark = { number: before.number + 1, position };
    if (this.#firstState === 0) this.#firstState = this.#mark.number;
    for (const handler of this.#handlers) handler.changed(changes, before);
    this.#saver?.changed();
    this.#progressed();
    this.emit('change', position);
  }

  /** #progressed reports how far the handlers are, and ends the waiting for a state. */
  #progressed(): void {
    const attempted = earliest(this.#mark, ...Array.from(this.#handlers, ({ handled }) => handled));
    if (this.#firstState > 0 && attempted.number >= this.#firstState) this.#hasState.open();
    if (!this.#isSynced && this.#firstFresh > 0 && attempted.number >= this.#firstFresh) {
      this.#isSynced = true;
      this.#synced.open();
      this.emit('sync');
    }
    this.#changed();
    this.#watch?.progressed();
  }

  /** #progress returns how far the informer and its handlers have applied the watch. */
  #progress(): Progress {
    const attempted = earliest(this.#mark, ...Array.from(this.#handlers, ({ handled }) => handled));
    const failing = [
      ...Array.from(this.#handlers, (handler) => [...handler.failing()]).flat(),
      ...Array.from(this.#undecoded, ([key, { before, error }]) => ({ key, before, error })),
    ];
    if (failing.length === 0) return { applied: attempted.position };
    const { before, error, key } = failing.reduce((a, b) => (b.before.number < a.before.number ? b : a));
    return {
      applied: earliest(before, attempted).position,
      ...(attempted.position && { attempted: attempted.position }),
      error: `${key}: ${error instanceof Error ? error.message : String(error)}`,
      failed: new Set(failing.map((failure) => failure.key)),
    };
  }
}
