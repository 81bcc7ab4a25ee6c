// Whether Subscribe works.

import { performance } from 'node:perf_hooks';

/** The time in milliseconds after which a missing Subscribe is tried again. */
const tryAgain = 5 * 60_000;

/**
 * SubscribeSupport is what a client knows about Subscribe: whether the servers, and every proxy on the way to them,
 * support it. A server that does not answer may only be dead, so a failure of Subscribe counts as soon as Watch works.
 */
export class SubscribeSupport {
  #state: 'likely' | 'doubted' | 'missing' = 'likely';
  #nextTry = 0;

  /** use reports whether a watch that is opened now should use Subscribe. */
  use(): boolean {
    if (this.#state === 'missing' && performance.now() >= this.#nextTry) this.#state = 'likely';
    return this.#state === 'likely';
  }

  /** failed notes that Subscribe has failed as it does where it is not supported. */
  failed(): void {
    if (this.#state === 'likely') this.#state = 'doubted';
  }

  /** watchWorked notes that Watch works. */
  watchWorked(): void {
    if (this.#state !== 'doubted') return;
    this.#state = 'missing';
    this.#nextTry = performance.now() + tryAgain;
  }

  /** watchFailed notes that Watch does not work either. */
  watchFailed(): void {
    if (this.#state === 'doubted') this.#state = 'likely';
  }
}
