// The delays between attempts.

import { setTimeout as sleep } from 'node:timers/promises';

/** The limit in milliseconds of the first delay. It doubles with each failure. */
export const firstLimit = 500;
/** The highest limit in milliseconds. */
export const highestLimit = 5000;
/** The longest delay in milliseconds that a server may ask for. */
const longestRetryAfter = 60_000;

/**
 * Random delays that grow. A delay is random between 0 and its limit, so that clients that lose a server together
 * do not come back together.
 */
export class Backoff {
  #limit = firstLimit;

  /** next returns the next delay in milliseconds, at least that of RetryInfo. */
  next(retryAfter = 0): number {
    const delay = Math.min(retryAfter, longestRetryAfter) + Math.random() * this.#limit;
    this.#limit = Math.min(2 * this.#limit, highestLimit);
    return delay;
  }

  /** reset begins again with short delays. */
  reset(): void {
    this.#limit = firstLimit;
  }
}

/** pause waits. If the signal is aborted, it throws the reason of the signal. */
export async function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    // Timers may fire a millisecond early.
    await sleep(Math.ceil(milliseconds) + 1, undefined, signal && { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}
