// The log lines of interrupted watches.

import type { FencedLogger } from './logger.js';

/** An interruption of a watch. */
export interface Interruption {
  readonly resource: string;
  /** The address of the server. Empty if the watch had none. */
  readonly server: string;
  readonly error: Error;
  /** Milliseconds until the watch resumes. */
  readonly delay: number;
}

/** InterruptionLog logs interruptions of watches. Those that are lost together, for the same reason, make one line. */
export class InterruptionLog {
  readonly #log: FencedLogger;
  readonly #together = new Map<string, Interruption[]>();

  constructor(log: FencedLogger) {
    this.#log = log;
  }

  add(interruption: Interruption): void {
    const { server, error } = interruption;
    const cause = `${server} ${error.message}`;
    const others = this.#together.get(cause);
    if (others) {
      others.push(interruption);
      return;
    }
    const all = [interruption];
    this.#together.set(cause, all);
    setImmediate(() => {
      this.#together.delete(cause);
      if (all.length === 1) this.#log.info('a watch was interrupted', { ...interruption });
      else this.#log.info('watches were interrupted', { watches: all.length, server, error });
    });
  }
}
