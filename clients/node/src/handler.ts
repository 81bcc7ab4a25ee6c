// Handlers of informers.

import { sameObject, type Item } from './item.js';
import type { Mark } from './mark.js';

/**
 * The functions that an informer calls for changes. They run one at a time. What happens while one runs waits, as
 * one change for each object, from what the handler has to the latest version.
 *
 * A function that throws or rejects counts as not called: the object is offered again, after a second at first, later
 * after a minute, and at once if it changes. Other objects go on. The error is reported to the server.
 */
export interface Handler<T> {
  /** An object came into view. */
  readonly add?: (item: Item<T>) => void | Promise<void>;
  /** An object has changed. */
  readonly update?: (old: Item<T>, item: Item<T>) => void | Promise<void>;
  /** An object has left the view. */
  readonly delete?: (old: Item<T>) => void | Promise<void>;
}

/** A handler that was added to an informer. */
export interface Registration {
  /** Removes the handler. It gets no further calls. */
  remove(): void;
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
  retryAt: number; // on the clock of performance.now
  error: unknown;
}

/** A copy that handlers follow. */
interface Source<T> {
  readonly mark: Mark;
  get(key: string): Item<T> | undefined;
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
  readonly done: Promise<void>;
  /** The handler was offered everything up to this state. */
  handled: Mark = { number: 0, position: undefined };
  readonly #handler: Handler<T>;
  readonly #source: Source<T>;
  readonly #removed: (loop: HandlerLoop<T>) => void;
  readonly #pending = new Map<string, Pending<T>>();
  readonly #failed = new Map<string, Pending<T>>(); // those of #pending, and some that were accepted since
  #calling: string | undefined;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(handler: Handler<T>, source: Source<T>, removed: (loop: HandlerLoop<T>) => void) {
    this.#handler = handler;
    this.#source = source;
    this.#removed = removed;
    this.done = this.#run();
  }

  /** The number of changes that the handler has not accepted yet. */
  get waiting(): number {
    return this.#pending.size;
  }

  remove(): void {
    this.stop();
    this.#removed(this);
  }

  /** stop ends the loop after the present call. */
  stop(): void {
    this.#over = true;
    this.#wake?.();
  }

  /** changed adds changes that lead from a state to the next one. */
  changed(changes: readonly Change<T>[], before: Mark): void {
    for (const { key, old, before: decoded } of changes) {
      const waiting = this.#pending.get(key);
      if (!waiting) {
        this.#pending.set(key, { had: old, before: decoded ?? before, failures: 0, retryAt: 0, error: undefined });
        continue;
      }
      waiting.retryAt = 0;
      this.#pending.delete(key);
      const undone = sameObject(waiting.had?.object, this.#source.get(key)?.object);
      // The order of the calls is that of the latest changes.
      if (!undone || this.#calling === key) this.#pending.set(key, waiting);
    }
    this.#wake?.();
  }

  /** failing yields the changes that have failed and were not accepted since. */
  *failing(): Generator<{ before: Mark; error: unknown; key: string }, void, void> {
    for (const [key, pending] of this.#failed) {
      if (this.#pending.get(key) !== pending || pending.failures === 0) {
        this.#failed.delete(key);
        continue;
      }
      const { before, error } = pending;
      yield { before, error, key };
    }
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // the informer knows the loop when its first call begins
    while (!this.#stopped()) {
      const target = this.#source.mark;
      const now = performance.now();
      const due = [...this.#pending].filter(([, { retryAt }]) => retryAt <= now);
      for (const [key, pending] of due) {
        if (this.#stopped()) return;
        if (this.#pending.get(key) === pending) await this.#offer(key, pending);
      }
      if (this.#stopped()) return;
      this.handled = target;
      this.#source.progressed();
      await this.#wait();
    }
  }

  /** A method, because the compiler takes a field to stay what it was before an await. */
  #stopped(): boolean {
    return this.#over;
  }

  async #offer(key: string, pending: Pending<T>): Promise<void> {
    const { mark } = this.#source;
    const item = this.#source.get(key);
    this.#calling = key;
    try {
      await this.#call(pending.had, item);
      pending.had = item;
      pending.before = mark;
      pending.failures = 0;
      pending.error = undefined;
      if (sameObject(item?.object, this.#source.get(key)?.object)) this.#pending.delete(key);
    } catch (error) {
      pending.failures++;
      this.#failed.set(key, pending);
      pending.error = error;
      const delay = Math.min(firstDelay * 2 ** (pending.failures - 1), longestDelay) * (0.8 + 0.2 * Math.random());
      if (sameObject(item?.object, this.#source.get(key)?.object)) pending.retryAt = performance.now() + delay;
      this.#source.failed(key, error, delay);
    } finally {
      this.#calling = undefined;
    }
  }

  async #call(had: Item<T> | undefined, item: Item<T> | undefined): Promise<void> {
    if (item && had) {
      if (!sameObject(had.object, item.object)) await this.#handler.update?.(had, item);
    } else if (item) {
      await this.#handler.add?.(item);
    } else if (had) {
      await this.#handler.delete?.(had);
    }
  }

  /** #wait waits for the next change or attempt. */
  async #wait(): Promise<void> {
    let next = Infinity;
    for (const { retryAt } of this.#pending.values()) next = Math.min(next, retryAt);
    if (this.#source.mark !== this.handled || this.#over) return;
    await new Promise<void>((resolve) => {
      const timer = next === Infinity ? undefined : setTimeout(resolve, Math.max(0, next - performance.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}
