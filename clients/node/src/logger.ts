// What clients log.

import { fenced } from './fence.js';

/** Takes log lines. `console` is one. */
export interface Logger {
  info(message: string, details: Readonly<Record<string, unknown>>): unknown;
  warn(message: string, details: Readonly<Record<string, unknown>>): unknown;
}

/** @internal FencedLogger passes log lines on. A logger that throws changes nothing. Without a logger, there are no logs. */
export class FencedLogger implements Logger {
  readonly #logger: Logger | undefined;

  constructor(logger: Logger | undefined) {
    this.#logger = logger;
  }

  info(message: string, details: Readonly<Record<string, unknown>>): void {
    if (this.#logger) fenced('the logger', () => this.#logger?.info(message, details));
  }

  warn(message: string, details: Readonly<Record<string, unknown>>): void {
    if (this.#logger) fenced('the logger', () => this.#logger?.warn(message, details));
  }
}
