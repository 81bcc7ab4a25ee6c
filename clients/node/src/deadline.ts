// Deadlines.

import { performance } from 'node:perf_hooks';
import { status } from '@grpc/grpc-js';
import { onAbort } from './abort.js';
import { FanoutError } from './errors.js';

/** The longest time in milliseconds that a timer can wait. A longer one would fire at once. */
export const longestTimer = 2 ** 31 - 1;

/** When a request must have ended. It counts monotonic time, so that a step of the clock changes nothing. */
export class Deadline {
  readonly #at: number;

  /** @param timeout The time that is left, in milliseconds. */
  constructor(timeout: number) {
    this.#at = performance.now() + timeout;
  }

  /** The time that is left, in milliseconds. */
  get left(): number {
    return this.#at - performance.now();
  }

  /** onReached calls a function at the deadline, unless the returned function is called before. */
  onReached(reached: () => void): () => void {
    if (this.left > longestTimer) return () => {};
    let timer: NodeJS.Timeout;
    const check = () => {
      // Timers may fire a millisecond early.
      if (this.left <= 0) reached();
      else timer = setTimeout(check, Math.ceil(this.left));
    };
    timer = setTimeout(check, Math.max(0, Math.ceil(this.left)));
    return () => clearTimeout(timer);
  }
}

/** deadlineError returns the error of a request whose time is up, with the failure of the last attempt. */
export function deadlineError(failure?: FanoutError): FanoutError {
  const message = failure ? `the time is up; the last attempt failed: ${failure.message}` : 'the time is up';
  return new FanoutError({ code: status.DEADLINE_EXCEEDED, message, cause: failure });
}

/** How long a caller waits. */
export interface Limits {
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly deadline?: Deadline | undefined;
}

/** within waits for a promise, but not longer than so many milliseconds. It reports whether the promise has settled. */
export async function within(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), Math.min(milliseconds, longestTimer));
  });
  try {
    return await Promise.race([promise.then(() => true), expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** limited waits for work, but not beyond the limits. The work goes on without the caller. */
export function limited<T>(work: Promise<T>, { signals, deadline }: Limits): Promise<T> {
  return new Promise((resolve, reject) => {
    const releases: (() => void)[] = [];
    const settle = () => releases.forEach((release) => release());
    work.finally(settle).then(resolve, reject);
    for (const signal of signals) {
      if (!signal) continue;
      const abort = () => {
        settle();
        reject(signal.reason as Error);
      };
      if (signal.aborted) {
        abort();
        return;
      }
      releases.push(onAbort(signal, abort));
    }
    if (deadline) {
      releases.push(
        deadline.onReached(() => {
          settle();
          reject(deadlineError());
        }),
      );
    }
  });
}
