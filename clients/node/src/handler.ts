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
  readonly #removed: (loop: HandlerLoop<T>) => void;
  readonly #stopping = new AbortController();
  readonly #context: HandlerContext = { signal: this.#stopping.signal };
  readonly #synced = new Gate();
  readonly #offered = new Gate();
  readonly #abandoned = new Gate();
  // Each pending change is due, waits for its next attempt, or is being offered.
  readonly #pending = new Map<string, Pending<T>>();
  readonly #due = new Set<string>();
  readonly #retries = new RankedMap<undefined>(); // by the clock of performance.now
  #calling: string | undefined;
  #wake: (() => void) | undefined;

  constructor(handler: Handler<T>, source: Source<T>, removed: (loop: HandlerLoop<T>) => void) {
    this.#handler = handler;
    this.#source = source;
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
    return this.#pending.size;
  }

  remove(): void {
    this.stop(new Error('the handler was removed'));
    this.#offered.open();
    this.#removed(this);
  }

  /** stop ends the loop after the present call. */
  stop(reason: unknown): void {
    this.#synced.fail(reason);
    this.#stopping.abort(reason);
    this.#wake?.();
  }

  /** changed adds changes that lead from a state to the next one. */
  changed(changes: readonly Change<T>[], before: Mark): void {
    for (const { key, old, before: decoded } of changes) {
      const waiting = this.#pending.get(key);
      if (!waiting) {
        this.#pending.set(key, { had: old, before: decoded ?? before, failures: 0 });
        this.#due.add(key);
        continue;
      }
      this.#retries.delete(key);
      this.#due.delete(key);
      const undone = sameObject(waiting.had?.object, this.#source.get(key)?.object);
      // The order of the calls is that of the latest changes.
      if (!undone || this.#calling === key) this.#due.add(key);
      else this.#forget(key);
    }
    this.#wake?.();
  }

  #forget(key: string): void {
    this.#pending.delete(key);
    this.#due.delete(key);
    this.failing.delete(key);
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // the informer knows the loop when its first call begins
    while (!this.#stopped()) {
      const target = this.#source.mark;
      for (const key of this.#dueNow()) {
        if (this.#stopped()) return;
        await this.#offer(key);
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
    return this.#stopping.signal.aborted;
  }

  #dueNow(): string[] {
    const now = performance.now();
    for (let first = this.#retries.first; first && first.rank <= now; first = this.#retries.first) {
      this.#retries.delete(first.key);
      this.#due.add(first.key);
    }
    return [...this.#due];
  }

  /** #offer calls the handler for an object, unless its change was undone. */
  async #offer(key: string): Promise<void> {
    const pending = this.#pending.get(key);
    if (!pending || !this.#due.delete(key)) return;
    const { mark } = this.#source;
    const item = this.#source.get(key);
    const unchanged = () => sameObject(item?.object, this.#source.get(key)?.object);
    this.#calling = key;
    try {
      await this.#call(pending.had, item);
      pending.had = item;
      pending.before = mark;
      pending.failures = 0;
      this.failing.delete(key);
      if (unchanged()) this.#forget(key);
    } catch (error) {
      if (this.#stopped()) return; // perhaps it has failed because of that
      if (this.failing.size === 0) {
        warn(`a handler of ${this.#source.name} has failed for ${key}, and is called again`, error);
      }
      pending.failures++;
      this.failing.set(key, pending.before.number, { before: pending.before, error });
      const delay = Math.min(firstDelay * 2 ** (pending.failures - 1), longestDelay) * (0.8 + 0.2 * Math.random());
      if (!this.#due.has(key)) this.#retries.set(key, performance.now() + delay, undefined);
      this.#source.failed(key, error, delay);
    } finally {
      this.#calling = undefined;
    }
  }

  async #call(had: Item<T> | undefined, item: Item<T> | undefined): Promise<void> {
    await calling(this.#source.owners, this.#abandoned.open, async () => {
      if (item && had) {
        if (!sameObject(had.object, item.object)) await this.#handler.update?.(had, item, this.#context);
      } else if (item) {
        await this.#handler.add?.(item, this.#context);
      } else if (had) {
        await this.#handler.delete?.(had, this.#context);
      }
    });
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
