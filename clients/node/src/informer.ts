// Informers.

import { EventEmitter } from 'node:events';
import { status } from '@grpc/grpc-js';
import { anySignal, onAbort } from './abort.js';
import { CompleteUpdate } from './assembler.js';
import type { ConnectionPool } from './connection_pool.js';
import { within } from './deadline.js';
import { closedError, FanoutError } from './errors.js';
import { describe, errorOf, fenced, isThenable, warn } from './fence.js';
import { freshFor } from './freshness.js';
import { Gate } from './gate.js';
import { HandlerLoop, type Change, type Failure, type Handler, type Registration } from './handler.js';
import { abandonCalls } from './handler_calls.js';
import { confirm, InformerWatch, type Member } from './informer_watch.js';
import { sameObject, type Item } from './item.js';
import { earliest, type Mark } from './mark.js';
import type { Decoder, Position, StoredObject } from './object.js';
import type { InformerState } from './observer.js';
import type { CallOptions, CloseOptions, FollowOptions } from './options.js';
import { RankedMap } from './ranked_map.js';
import { NotRegularError } from './regular_file.js';
import { mostFailedKeys, type Progress } from './reporter.js';
import { Saver } from './saver.js';
import { StateFile } from './state_file.js';
import { bookmarksOf, startOf } from './watch_start.js';
import type { WatcherSettings } from './watcher.js';

/** Options of an informer. */
export interface InformerOptions<T> extends FollowOptions {
  /** Decodes objects, and returns no promise. Default: the value of an item is the object itself. */
  readonly decode?: Decoder<T> | undefined;
  /**
   * Keeps the newest state in a file, and begins with it, so that a program can start while no server can be reached.
   * The file has the values in plain text. Each informer needs a file of its own. The informer ends with an error if the
   * path is that of a device, a pipe, a socket or a folder.
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
interface Undecoded extends Failure {
  readonly object: StoredObject;
  readonly error: Error;
}

/** A version of an object that cannot be decoded. */
class Undecodable {
  constructor(
    readonly object: StoredObject,
    readonly error: Error,
  ) {}
}

/** What an event does: it removes the object with a key, or changes it to a version that can be decoded, or cannot. */
type Step<T> = string | Item<T> | Undecodable;

/** The arguments of the event `invalid`. */
type Invalid<T> = InformerEvents<T>['invalid'];

/**
 * An informer keeps a decoded copy of a selection, which is always the state at one position, and calls handlers for
 * its changes. Besides, it emits {@link InformerEvents}. It has changed before it calls anything, and a listener that
 * throws or rejects is logged.
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
  readonly #undecoded = new RankedMap<Undecoded>(); // by the number of the state before
  readonly #hasState = new Gate();
  readonly #synced = new Gate();
  readonly #ended = new Gate(); // it only fails
  #mark: Mark = { number: 0, position: undefined };
  #version = 0;
  #confirmedAt = -Infinity; // as all times, on the clock of performance.now
  #lostAt = -Infinity; // when the watch was last interrupted; Infinity: it has ended
  #interruption: Error | undefined;
  #startedAt = 0;
  #changed = () => {};
  #firstState = 0; // the number of the first state; 0: there is none
  #firstFresh = 0; // the same of a state that is fresh enough
  #isSynced = false;
  #waiting = 0;
  #watch: InformerWatch | undefined;
  #confirmed: { from: Position; at: number } | undefined; // from this position on, the state is as fresh as at this time
  #patience: number | undefined; // of the caller of close
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
    this.#pool.closing.throwIfAborted();
    if (this.#stopping.signal.aborted) throw closedError('informer');
    this.#startedAt = performance.now();
    this.#running = this.#run();
    this.#pool.running(this.#running);
    this.#pool.informers.add(this);
    void this.#running.finally(() => this.#pool.informers.delete(this));
    return this;
  }

  /**
   * close ends the informer. It saves the state, and waits for the last call of each handler, except for one that it
   * is called in. After the timeout it does not wait any longer.
   */
  async close({ timeout }: CloseOptions = {}): Promise<void> {
    abandonCalls(this);
    this.#patience ??= timeout;
    this.#stopping.abort(closedError('informer'));
    if (this.#running) return this.#running;
    this.#ended.fail(this.#stopping.signal.reason);
    for (const handler of this.#handlers) handler.stop(this.#stopping.signal.reason);
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

  /** The time at which the servers had no other state, in milliseconds since 1970. 0 if it is unknown. */
  get asOf(): number {
    if (this.#confirmedAt === -Infinity) return 0;
    return Math.round(Date.now() - (performance.now() - this.#confirmedAt));
  }

  /**
   * Whether the copy may be out of date: the client has lost the servers, or they have lost etcd. It becomes true at
   * most three bookmark intervals (at least 10 s) later.
   */
  get stale(): boolean {
    return this.#confirmedAt <= this.#lostAt || performance.now() - this.#confirmedAt > freshFor(bookmarksOf(this.#options));
  }

  /**
   * waitForSync waits until the copy is as fresh as the consistency requires, and each handler that was added before
   * was called for each object. It throws if the informer was not started, or has ended or ends before.
   */
  waitForSync(options: CallOptions = {}): Promise<void> {
    const offered = Array.from(this.#handlers, (handler) => handler.offered);
    return this.#wait(Promise.all([this.#synced.promise, ...offered]), true, options);
  }

  /** waitForState waits until there is a state, which may be the saved one, and all handlers were called for it. */
  waitForState(options: CallOptions = {}): Promise<void> {
    return this.#wait(this.#hasState.promise, false, options);
  }

  async #wait(reached: Promise<unknown>, fresh: boolean, { signal, timeout = Infinity }: CallOptions): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#running && !this.#stopping.signal.aborted) throw new Error('the informer was not started');
    const aborted = new Gate();
    const release = signal && onAbort(signal, () => aborted.fail(signal.reason));
    this.#waiting++;
    try {
      // The end comes first: what was reached before does not count.
      const settled = Promise.race([this.#ended.promise, aborted.promise, reached]);
      if (await within(settled, timeout)) return;
    } finally {
      this.#waiting--;
      release?.();
    }
    const message = `after ${timeout} ms, ${this.#missing(fresh)}`;
    throw new FanoutError({ code: status.DEADLINE_EXCEEDED, message, cause: this.#interruption });
  }

  /** addHandler adds a handler, which first gets an `add` for each present item. */
  addHandler(handler: Handler<T>): Registration {
    const loop = new HandlerLoop<T>(handler, this.#source, (removed) => {
      this.#handlers.delete(removed);
      this.#progressed();
    });
    if (this.#stopping.signal.aborted) {
      loop.stop(this.#stopping.signal.reason);
      return loop;
    }
    this.#handlers.add(loop);
    const present = Array.from(this.#items.keys(), (key): Change<T> => ({ key, old: undefined }));
    loop.changed(present, { number: 0, position: undefined });
    return loop;
  }

  readonly #source = ((informer: Informer<T>) => ({
    get name() {
      return informer.#resource;
    },
    get mark() {
      return informer.#mark;
    },
    get owners() {
      return [informer, informer.#pool];
    },
    get: (key: string) => informer.#items.get(key),
    isFresh: ({ number }: Mark) => informer.#firstFresh > 0 && number >= informer.#firstFresh,
    progressed: () => informer.#progressed(),
    failed: (key: string, error: unknown, delay: number) => {
      informer.#pool.hooks.call('handlerFailed', { resource: informer.#resource, key, error, delay });
    },
  }))(this);

  /** #notify calls the listeners of an event. */
  #notify<E extends keyof InformerEvents<T>>(event: E, ...args: InformerEvents<T>[E]): void {
    for (const listener of this.rawListeners(event)) {
      fenced(`a listener of the event ${event}`, () => Reflect.apply(listener, this, args));
    }
  }

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
        interrupted: (at, error) => {
          this.#lostAt = at;
          if (!error) return;
          this.#interruption = error;
          this.#notify('interruption', error);
        },
        ended: (error) => ended.fail(error),
        progress: () => this.#progress(),
        state: () => this.#state(),
      };
      onAbort(signal, () => ended.fail(signal.reason));
      const { watch, joined } = InformerWatch.join(this.#pool, settings, member);
      this.#watch = watch;
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
    this.#lostAt = Infinity;
    const closed = signal.aborted;
    const reason: unknown = this.#stopping.signal.aborted ? this.#stopping.signal.reason : failure;
    this.#stopping.abort(reason); // a handler that is added from now on gets no calls
    for (const handler of this.#handlers) handler.stop(reason);
    const left = Promise.all(Array.from(this.#handlers, (handler) => handler.left));
    const patience = this.#patience ?? this.#pool.patience;
    const [settled] = await Promise.all([within(left, patience), this.#saver?.stop()]);
    if (!settled) warn(`an informer of ${this.#resource} has ended`, `a handler still runs after ${patience} ms`);
    // Callers that wait get the error.
    const unseen = this.#waiting === 0;
    this.#ended.fail(reason);
    process.nextTick(() => {
      try {
        // As with streams, an error without a listener ends the process, unless a waiter got it.
        if (closed) return;
        if (this.listenerCount('error') > 0) this.#notify('error', errorOf(failure));
        else if (unseen) this.emit('error', errorOf(failure));
      } finally {
        this.#notify('close');
      }
    });
  }

  /** #load begins with the saved state, and returns its position. */
  async #load(): Promise<Position | undefined> {
    const { lastKnownGood } = this.#options;
    if (!lastKnownGood) return undefined;
    // The file is for what decides which objects there are.
    const { consistency: _, delivery: __, maxBatchDelay: ___, ...watch } = startOf(this.#resource, this.#options);
    const file = new StateFile(lastKnownGood.path, lastKnownGood.maxBytes, watch);
    this.#saver = new Saver(
      file,
      () => ({ position: this.#mark.position, version: this.#version, objects: () => this.#objects() }),
      (error) => this.#notify('warning', error),
    );
    let saved;
    try {
      saved = await file.read();
    } catch (thrown) {
      const error = errorOf(thrown);
      if (error.cause instanceof NotRegularError) throw error; // no state can ever be saved there
      this.#notify('warning', error);
    }
    if (!saved || saved.position.revision === 0n) return undefined;
    this.#take(saved.objects.map((object) => this.#decoded(object)), saved.position);
    this.#saver.loaded();
    return saved.position;
  }

  /** #objects yields what is saved. The last version that can be decoded precedes one that cannot. */
  *#objects(): Generator<StoredObject, void, void> {
    for (const { object } of this.#items.values()) yield object;
    for (const { object } of this.#undecoded.values()) yield object;
  }

  #apply(update: CompleteUpdate): void {
    const steps = this.#stepsOf(update);
    const { from, at } = this.#confirmed ?? { at: -Infinity };
    const proven = from?.epoch === update.position.epoch && from.revision <= update.position.revision;
    this.#confirmedAt = proven ? Math.max(update.confirmedAt, at) : update.confirmedAt;
    if (this.#firstFresh === 0 && (proven || this.#isFresh(update))) this.#firstFresh = this.#mark.number + 1;
    this.#take(steps, update.position);
  }

  /** #stepsOf decodes the objects of an update. So the decoder, which may use the informer, sees one state. */
  #stepsOf(update: CompleteUpdate): Step<T>[] {
    const steps: Step<T>[] = [];
    if (update.replace && (this.#items.size > 0 || this.#undecoded.size > 0)) {
      const present = new Set(update.events.map(({ object }) => object.key));
      for (const key of [...this.#items.keys(), ...this.#undecoded.keys()]) if (!present.has(key)) steps.push(key);
    }
    for (const { type, object } of update.events) {
      steps.push(type === 'deleted' ? object.key : (this.#present(object) ?? this.#decoded(object)));
    }
    return steps;
  }

  /** #present returns the step to a version that the copy has, which is not decoded again: a RESET repeats objects. */
  #present(object: StoredObject): Step<T> | undefined {
    const undecoded = this.#undecoded.get(object.key);
    const item = this.#items.get(object.key);
    if (!sameObject(undecoded?.object ?? item?.object, object)) return undefined;
    return undecoded ? new Undecodable(undecoded.object, undecoded.error) : item;
  }

  #decoded(object: StoredObject): Step<T> {
    try {
      const value = this.#decode(object);
      if (!isThenable(value)) return { key: object.key, value, object, invalid: undefined };
      void Promise.resolve(value).catch(() => {}); // its failure adds nothing
      return new Undecodable(object, new TypeError('decode has returned a promise'));
    } catch (thrown) {
      return new Undecodable(object, errorOf(thrown));
    }
  }

  /** #take changes the copy, and calls handlers and listeners afterwards. */
  #take(steps: readonly Step<T>[], position: Position): void {
    const changes: Change<T>[] = [];
    const invalid: Invalid<T>[] = [];
    for (const step of steps) {
      if (typeof step === 'string') this.#remove(step, changes);
      else if (step instanceof Undecodable) this.#keep(step, invalid);
      else this.#put(step, changes);
    }
    this.#publish(position, changes, invalid);
  }

  /** #confirm proves with a short watch that the state has everything that was written before. */
  async #confirm(settings: WatcherSettings & { after: Position }, signal: AbortSignal): Promise<void> {
    const at = performance.now();
    const from = await confirm(this.#pool, settings, signal);
    const position = this.#mark.position;
    if (!from || !position || signal.aborted) return;
    this.#confirmed = { from, at };
    // Otherwise the update that reaches this position proves it.
    if (from.epoch === position.epoch && from.revision <= position.revision) {
      this.#apply(new CompleteUpdate({ events: [], replace: false, delta: false, position }, this.#confirmedAt));
    }
  }

  /** #state returns what another informer needs to begin with this state. */
  #state(): ReturnType<Member['state']> {
    const { position } = this.#mark;
    if (!position) return undefined;
    const objects = Array.from(this.#items.values(), ({ key, object }) => this.#undecoded.get(key)?.object ?? object);
    for (const { object } of this.#undecoded.values()) if (!this.#items.has(object.key)) objects.push(object);
    return { objects, position, confirmedAt: this.#confirmedAt };
  }

  #isFresh({ position, confirmedAt }: CompleteUpdate): boolean {
    const { consistency } = this.#options;
    if (confirmedAt === -Infinity) return false;
    if (typeof consistency === 'object') {
      return 'minRevision' in consistency ? position.revision >= consistency.minRevision : true;
    }
    return consistency === 'any' || confirmedAt >= this.#startedAt;
  }

  #remove(key: string, changes: Change<T>[]): void {
    const old = this.#items.get(key);
    const before = this.#undecoded.get(key)?.before;
    if (this.#undecoded.delete(key) || old) this.#version++;
    if (!old) return;
    this.#items.delete(key);
    changes.push({ key, old, before });
  }

  #put(item: Item<T>, changes: Change<T>[]): void {
    const { key } = item;
    const undecoded = this.#undecoded.get(key);
    const old = this.#items.get(key);
    if (sameObject(undecoded?.object ?? old?.object, item.object)) return; // the copy has it
    this.#version++;
    if (undecoded) this.#undecoded.delete(key);
    changes.push({ key, old, before: undecoded?.before });
    this.#items.set(key, item);
  }

  /** #keep keeps the last version of an object that could be decoded. */
  #keep({ object, error }: Undecodable, invalid: Invalid<T>[]): void {
    const { key } = object;
    const undecoded = this.#undecoded.get(key);
    const old = this.#items.get(key);
    if (sameObject(undecoded?.object ?? old?.object, object)) return; // it was told before
    this.#version++;
    const before = undecoded?.before ?? this.#mark;
    this.#undecoded.set(key, before.number, { object, error, before });
    if (old) this.#items.set(key, { ...old, invalid: error });
    invalid.push([object, error, old]);
  }

  /** #publish makes the items the state at a position. */
  #publish(position: Position, changes: readonly Change<T>[], invalid: readonly Invalid<T>[]): void {
    const before = this.#mark;
    this.#mark = { number: before.number + 1, position };
    if (this.#firstState === 0) this.#firstState = this.#mark.number;
    for (const handler of this.#handlers) handler.changed(changes, before);
    this.#saver?.changed();
    for (const args of invalid) this.#notify('invalid', ...args);
    this.#progressed();
    this.#notify('change', position);
  }

  /** #progressed reports how far the handlers are, and ends the waiting for a state. */
  #progressed(): void {
    const attempted = earliest(this.#mark, ...Array.from(this.#handlers, ({ handled }) => handled));
    if (this.#firstState > 0 && attempted.number >= this.#firstState) this.#hasState.open();
    const synced = !this.#isSynced && this.#source.isFresh(attempted);
    if (synced) {
      this.#isSynced = true;
      this.#synced.open();
    }
    this.#changed();
    this.#watch?.progressed();
    if (synced) this.#notify('sync');
  }

  /** #missing says what a caller still waits for. */
  #missing(fresh: boolean): string {
    const interruption = this.#confirmedAt <= this.#lostAt && this.#interruption ? `: ${describe(this.#interruption)}` : '';
    if (this.#firstState === 0) return `there is no state${interruption}`;
    if (fresh && this.#firstFresh === 0) return `the state may be out of date${interruption}`;
    return 'a handler was not called for each object';
  }

  /** #progress returns how far the informer and its handlers have applied the watch. */
  #progress(): Progress {
    const attempted = earliest(this.#mark, ...Array.from(this.#handlers, ({ handled }) => handled));
    const failures: RankedMap<Failure>[] = [...Array.from(this.#handlers, ({ failing }) => failing), this.#undecoded];
    const first = failures.flatMap((failing) => failing.first ?? []);
    if (first.length === 0) return { applied: attempted.position };
    const { key, value: { before, error } } = first.reduce((a, b) => (b.rank < a.rank ? b : a));
    // More keys than a report can name are not collected.
    const failed = failures.every(({ size }) => size <= mostFailedKeys) && new Set(failures.flatMap((failing) => [...failing.keys()]));
    return {
      applied: earliest(before, attempted).position,
      ...(attempted.position && { attempted: attempted.position }),
      error: `${key}: ${describe(error)}`,
      ...(failed && { failed }),
    };
  }
}
