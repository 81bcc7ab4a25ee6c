// What waits for the reader of a watch.

import { onAbort } from './abort.js';
import type { Update } from './assembler.js';

/** From how many waiting bytes on the watch is stopped. */
const most = 256 << 10;
/** What an update without events counts. */
const least = 128;

/** UpdateQueue keeps the updates that their reader has not taken yet. */
export class UpdateQueue {
  #updates: { update: Update; size: number }[] = [];
  #bytes = 0;
  #over = false;
  #error: unknown;
  #readable: (() => void) | undefined; // wakes the reader
  #writable: (() => void) | undefined; // wakes the writer

  /** push adds an update. It returns false if the writer must wait for room before it adds more. */
  push(update: Update, size: number): boolean {
    const last = this.#updates.at(-1);
    if (last?.update.events.length === 0 && !last.update.replace && !update.replace) {
      // Only the latest position counts. So bookmarks never fill the queue.
      this.#updates.pop();
      this.#bytes -= last.size;
    }
    this.#updates.push({ update, size: Math.max(size, least) });
    this.#bytes += Math.max(size, least);
    this.#readable?.();
    return this.#bytes < most;
  }

  /** end ends the queue. The reader gets what waits, then the error. */
  end(error: unknown): void {
    this.#over = true;
    this.#error = error;
    this.#readable?.();
  }

  /** room waits until the reader has taken everything. */
  async room(signal: AbortSignal): Promise<void> {
    while (this.#updates.length > 0) {
      await waitFor(signal, (wake) => (this.#writable = wake));
    }
  }

  /** take returns the next update. At the end, it throws the error. */
  async take(signal: AbortSignal): Promise<Update> {
    while (this.#updates.length === 0) {
      if (this.#over) throw this.#error;
      await waitFor(signal, (wake) => (this.#readable = wake));
    }
    const first = this.#updates.shift()!;
    this.#bytes -= first.size;
    if (this.#updates.length === 0) this.#writable?.();
    return first.update;
  }
}

/** waitFor waits until it is woken. If the signal is aborted, it throws the reason of the signal. */
export function waitFor(signal: AbortSignal, register: (wake: (() => void) | undefined) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const release = onAbort(signal, () => {
      register(undefined);
      reject(signal.reason as Error);
    });
    register(() => {
      release();
      register(undefined);
      resolve();
    });
  });
}
