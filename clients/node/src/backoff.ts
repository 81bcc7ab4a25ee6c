// The delays between attempts.

import { onAbort } from './abort.js';

/** The longest delay in milliseconds that a server may ask for. */
export const longestRetryAfter = 60_000;

/**
 * Random delays that grow. A delay is random between 0 and its limit, so that clients that lose a server together
 * do not come back together.
 */
export class Backoff {
  readonly #first: number;
  readonly #most: number;
  #limit: number;

  /** @param first The limit in milliseconds of the first delay. It doubles with each failure, up to `most`. */
  constructor(first = 200, most = 5000) {
    this.#first = this.#limit = first;
    this.#most = most;
  }

  /** next returns the next delay in milliseconds, at least that of RetryInfo. */
  next(retryAfter = 0): number {
    const delay = Math.min(retryAfter, longestRetryAfter) + Math.random() * this.#limit;
    this.#limit = Math.min(2 * this.#limit, this.#most);
    return delay;
  }

  /** reset begins again with short delays. */
  reset(): void {
    this.#limit = this.#first;
  }
}

/** pause waits. If a signal is aborted, it throws the reason of the signal. */
export function pause(milliseconds: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const releases: (() => void)[] = [];
    const settle = () => releases.forEach((release) => release());
    for (const signal of signals) {
      if (signal?.aborted) {
        settle();
        reject(signal.reason as Error);
        return;
      }
      if (!signal) continue;
      releases.push(
        onAbort(signal, () => {
          settle();
          reject(signal.reason as Error);
        }),
      );
    }
    // Timers may fire a millisecond early.
    const timer = setTimeout(
      () => {
        settle();
        resolve();
      },
      Math.ceil(milliseconds) + 1,
    );
    releases.push(() => clearTimeout(timer));
  });
}
