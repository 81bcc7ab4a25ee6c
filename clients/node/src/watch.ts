// Watches of a resource.

import { anySignal } from './abort.js';
import type { Update } from './assembler.js';
import type { ConnectionPool } from './connection_pool.js';
import { fenced } from './fence.js';
import { positionOf, type Position } from './object.js';
import type { WatchOptions } from './options.js';
import { UpdateQueue } from './update_queue.js';
import { bookmarksOf, startOf } from './watch_start.js';
import { Watcher } from './watcher.js';

/**
 * A watch. It begins with the first call of `next`, and yields updates until it is closed. `break` in a loop over it
 * closes it.
 *
 * ```ts
 * for await (const update of config.watch({ prefix: 'shop' })) apply(update);
 * ```
 */
export class Watch implements AsyncIterableIterator<Update>, AsyncDisposable {
  readonly #watcher: Watcher;
  readonly #queue = new UpdateQueue();
  readonly #stopping = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #reports: boolean;
  #position: Position | undefined;
  #unapplied = false; // the caller may not have applied the last update yet
  #run: { signal: AbortSignal; ended: Promise<void> } | undefined;
  #last: Promise<unknown> = Promise.resolve(); // of the calls of next, which come one after the other

  /** @internal Use {@link Resource.watch}. */
  constructor(pool: ConnectionPool, resource: string, options: WatchOptions) {
    const { fromNow = false, everyEvent = false, previousObject = false, reports = true, onInterruption } = options;
    const after = options.after && positionOf(options.after);
    const request = { ...startOf(resource, options), everyEvent, previousObject };
    this.#position = after;
    this.#reports = reports;
    this.#signals = [this.#stopping.signal, pool.closing, ...(options.signal ? [options.signal] : [])];
    this.#watcher = new Watcher(
      pool,
      { request, bookmarks: bookmarksOf(options), everyEvent, after, fromNow, reports, metadata: options.metadata },
      {
        receive: (update, size) => this.#queue.push(update, size),
        room: (signal) => this.#queue.room(signal),
        interrupted: (error) => fenced('onInterruption', () => onInterruption?.(error)),
      },
    );
  }

  /** Where a watch continues with the update after the last one: the position of that update, at first `after`. */
  get position(): Position | undefined {
    return this.#position;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** next waits for the next update. The previous one then counts as applied. */
  next(): Promise<IteratorResult<Update, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => {});
    return next;
  }

  async #next(): Promise<IteratorResult<Update, undefined>> {
    if (this.#closed()) return { done: true, value: undefined };
    const { signal } = (this.#run ??= this.#start());
    if (this.#unapplied && this.#reports) this.#watcher.reporter.set({ applied: this.#position });
    try {
      const update = await this.#queue.take(signal);
      this.#position = update.position;
      this.#unapplied = true;
      return { done: false, value: update };
    } catch (error) {
      if (this.#closed()) return { done: true, value: undefined };
      await this.close();
      throw error;
    }
  }

  /** A method, because the compiler takes a property to stay what it was before an await. */
  #closed(): boolean {
    return this.#stopping.signal.aborted;
  }

  #start(): { signal: AbortSignal; ended: Promise<void> } {
    const { signal, release } = anySignal(this.#signals);
    const ended = this.#watcher.run(signal).catch((error: unknown) => this.#queue.end(error)).finally(release);
    return { signal, ended };
  }

  /** close ends the watch, here and at the server. A call of `next` that waits returns that there is nothing more. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#run?.ended;
  }

  /** return does what `close` does. Loops call it when they end. */
  async return(): Promise<IteratorReturnResult<undefined>> {
    await this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
