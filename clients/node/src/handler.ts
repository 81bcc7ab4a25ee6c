// Handlers of informers.

import { setMaxListeners } from 'node:events';
import { warn } from './fence.js';
import { Gate } from './gate.js';
import { calling } from './handler_calls.js';
import { sameObject, type Item } from './item.js';
import type { Mark } from './mark.js';
import { RankedMap } from './ranked_map.js';

/** What a handler gets with each call. */
export interface HandlerContext {
  /** It is aborted when the handler is removed, and when the informer ends, which waits for the call. */
  readonly signal: AbortSignal;
}

/**
 * The functions that an informer calls for changes. They run one at a time. What happens while one runs waits, as
 * one change for each object, from what the handler has to the latest version.
 *
 * A function that throws or rejects counts as not called: the object is offered again, after a second at first, later
 * after a minute, and at once if it changes. Other objects go on. The error is reported to the server. The first one
 * while all objects were accepted is logged.
 */
export interface Handler<T> {
  /** An object came into view. */
  readonly add?: (item: Item<T>, context: HandlerContext) => void | Promise<void>;
  /** An object has changed. */
  readonly update?: (old: Item<T>, item: Item<T>, context: HandlerContext) => void | Promise<void>;
  /** An object has left the view. */
  readonly delete?: (old: Item<T>, context: HandlerContext) => void | Promise<void>;
}

/** A handler that was added to an informer. */
export interface Registration {
  /** Removes the handler. It gets no further calls. */
  remove(): void;
  /**
   * Resolves when the copy is as fresh as required, and the handler was called for each object. Rejects if the handler
   * is removed or the informer ends before.
   */
  readonly synced: Promise<void>;
  /** Settles when the handler was removed or the informer was closed, and the last call has ended. */
  readonly done: Promise<void>;
}

/** The delays in milliseconds before a change is offered again. */
const firstDelay = 1000;
const longestDelay = 60_000;

/** A change that the handler has not accepted. */
interface Pending<T> {
  readonly key: string;
  had: Item<T> | undefined; // what the handler has
  before: Mark; // the last state whose changes of the object were accepted
  failures: number;
}

/** @internal A change that was not accepted. */
export interface Failure {
  /** The last state whose changes of the object were accepted. */
  readonly before: Mark;
  readonly error: unknown;
}

/** A copy that handlers follow. */
interface Source<T> {
  readonly name: string;
  readonly mark: Mark;
  /** Whose `close` waits for the handlers. */
  readonly owners: readonly object[];
  get(key: string): Item<T> | undefined;
  /** Whether a state was as fresh as required, or came after one that was. */
  isFresh(mark: Mark): boolean;
  /** The handler has made progress. */
  progressed(): void;
  /** The handler has failed, and is called again after so many milliseconds. */
  failed(key: string, error: unknown, delay: number): void;
}

/** @internal A change of the copy. */
export interface Change<T> {
  readonly key: string;
  readonly old: Item<T> | undefined;
  /** The last state whose version of the object was decoded, if it is not the state before the change. */
  readonly before?: Mark | undefined;
}

/** @internal HandlerLoop calls a handler. */
export class HandlerLoop<T> implements Registration {
  readonly synced: Promise<void>;
  readonly done: Promise<void>;
  /** Settles with `done`, or when the last call waits for the end of the informer itself. */
  readonly left: Promise<void>;
  /** The handler was offered everything up to this state. */
  handled: Mark = { number: 0, position: undefined };
  /** The objects whose last call has failed. The first one was accepted least recently. */
  readonly failing = new RankedMap<Failure>();
  readonly #handler: Handler<T>;
  readonly #source: Source<T>;
  readonly #owners: readonly object[];
  readonly #removed: (loop: HandlerLoop<T>) => void;
  readonly #stopping = new AbortController();
  readonly #context: HandlerContext = { signal: this.#stopping.signal };
  readonly #synced = new Gate();
  readonly #offered = new Gate();
  readonly #abandoned = new Gate();
  // Each pending change is due, waits for its next attempt, or is being offered. While it is, it may become due again.
  readonly #due = new Map<string, Pending<T>>();
  readonly #retries = new RankedMap<Pending<T>>(); // by the clock of performance.now
  #offering: Pending<T> | undefined;
  #over = false; // costs less to read than the signal
  #wake: (() => void) | undefined;

  constructor(handler: Handler<T>, source: Source<T>, removed: (loop: HandlerLoop<T>) => void) {
    this.#handler = handler;
    this.#source = source;
    this.#owners = source.owners;
    this.#removed = removed;
    setMaxListeners(0, this.#stopping.signal);
    this.synced = this.#synced.promise;
    this.done = this.#run();
    this.left = Promise.race([this.done, this.#abandoned.promise]);
  }

  /** Resolves when the handler is synced, or was removed. It waits for ever if the informer ends before. */
  get offered(): Promise<void> {
    return this.#offered.promise;
  }

  /** The number of changes that the handler has not accepted yet. */
  get waiting(): number {
    const offering = this.#offering && !this.#due.has(this.#offering.key) ? 1 : 0;
    return this.#due.size + this.#retries.size + offering;
  }

  remove(): void {
    this.stop(new Error('the handler was removed'));
    this.#offered.open();
    this.#removed(this);
  }

  /** stop ends the loop after the present call. */
  stop(reason: unknown): void {
    this.#over = true;
    this.#synced.fail(reason);
    this.#stopping.abort(reason);
    this.#wake?.();
  }

  /** changed adds changes that lead from a state to the next one. */
  changed(changes: readonly Change<T>[], before: Mark): void {
    for (const { key, old, before: decoded } of changes) {
      const waiting = this.#waitingFor(key);
      if (!waiting) {
        this.#due.set(key, { key, had: old, before: decoded ?? before, failures: 0 });
        continue;
      }
      this.#retries.delete(key);
      this.#due.delete(key);
      waiting.failures = 0; // they were those of another version
      const undone = sameObject(waiting.had?.object, this.#source.get(key)?.object);
      // The order of the calls is that of the latest changes.
      if (!undone || this.#offering === waiting) this.#due.set(key, waiting);
      else this.failing.delete(key);
    }
    this.#wake?.();
  }

  /** #waitingFor returns the pending change of an object. */
  #waitingFor(key: string): Pending<T> | undefined {
    return this.#due.get(key) ?? this.#retries.get(key) ?? (this.#offering?.key === key ? this.#offering : undefined);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // the informer knows the loop when its first call begins
    while (!this.#stopped()) {
      const target = this.#source.mark;
      for (const key of this.#dueNow()) {
        if (this.#stopped()) return;
        const pending = this.#due.get(key);
        if (!pending) continue; // its change was undone
        this.#due.delete(key);
        const item = this.#source.get(key);
        const call = this.#callFor(pending.had, item);
        if (!call) {
          // The handler has no function for it.
          this.failing.delete(key);
          continue;
        }
        const running = this.#offer(pending, item, call);
        if (running) await running;
      }
      if (this.#stopped()) return;
      this.handled = target;
      if (this.#source.isFresh(target)) {
        this.#synced.open();
        this.#offered.open();
      }
      this.#source.progressed();
      await this.#wait();
    }
  }

  /** A method, because the compiler takes a property to stay what it was before an await. */
  #stopped(): boolean {
    return this.#over;
  }

  #dueNow(): string[] {
    const now = performance.now();
    for (let first = this.#retries.first; first && first.rank <= now; first = this.#retries.first) {
      this.#retries.delete(first.key);
      this.#due.set(first.key, first.value);
    }
    return [...this.#due.keys()];
  }

  /** #offer calls the handler for an object. It returns a promise if the call goes on. */
  #offer(pending: Pending<T>, item: Item<T> | undefined, call: () => void | Promise<void>): Promise<void> | undefined {
    const { mark } = this.#source;
    this.#offering = pending;
    let running: Promise<void> | undefined;
    try {
      running = calling(this.#owners, this.#abandoned.open, call);
    } catch (error) {
      this.#rejected(pending, error);
      return undefined;
    }
    // Most functions return no promise. To wait for nothing would cost more than the call.
    if (running) return this.#ended(running, pending, item, mark);
    this.#accepted(pending, item, mark);
    return undefined;
  }

  async #ended(running: Promise<void>, pending: Pending<T>, item: Item<T> | undefined, mark: Mark): Promise<void> {
    try {
      await running;
    } catch (error) {
      this.#rejected(pending, error);
      return;
    }
    this.#accepted(pending, item, mark);
  }

  /** #accepted notes that the handler has accepted an item, which was that of a state. */
  #accepted(pending: Pending<T>, item: Item<T> | undefined, mark: Mark): void {
    const { key } = pending;
    this.#offering = undefined;
    pending.had = item;
    pending.before = mark;
    pending.failures = 0;
    this.failing.delete(key);
    if (this.#source.mark === mark) return; // the object cannot have changed since
    if (this.#due.has(key) && sameObject(item?.object, this.#source.get(key)?.object)) this.#due.delete(key);
  }

  /** #rejected notes that the call of the handler has failed. */
  #rejected(pending: Pending<T>, error: unknown): void {
    const { key, before } = pending;
    this.#offering = undefined;
    if (this.#stopped()) return; // perhaps it has failed because of that
    if (this.failing.size === 0) {
      warn(`a handler of ${this.#source.name} has failed for ${key}, and is called again`, error);
    }
    pending.failures++;
    this.failing.set(key, before.number, { before, error });
    const delay = Math.min(firstDelay * 2 ** (pending.failures - 1), longestDelay) * (0.8 + 0.2 * Math.random());
    if (this.#due.has(key)) pending.failures = 0; // it has changed during the call
    else this.#retries.set(key, performance.now() + delay, pending);
    this.#source.failed(key, error, delay);
  }

  /** #callFor returns the call that leads the handler from what it has to an item. Undefined if it has no function for that. */
  #callFor(had: Item<T> | undefined, item: Item<T> | undefined): (() => void | Promise<void>) | undefined {
    const handler = this.#handler;
    const context = this.#context;
    if (item && had) {
      return handler.update && !sameObject(had.object, item.object) ? () => handler.update?.(had, item, context) : undefined;
    }
    if (item) return handler.add && (() => handler.add?.(item, context));
    return had && handler.delete && (() => handler.delete?.(had, context));
  }

  /** #wait waits for the next change or attempt. */
  async #wait(): Promise<void> {
    if (this.#source.mark !== this.handled || this.#due.size > 0 || this.#stopped()) return;
    const next = this.#retries.first?.rank;
    await new Promise<void>((resolve) => {
      const timer = next === undefined ? undefined : setTimeout(resolve, Math.max(0, next - performance.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
