// Reports how far a watch is applied.

import { status } from '@grpc/grpc-js';
import { Backoff } from './backoff.js';
import type { OpenWatch, Report } from './carrier.js';
import { samePosition, type Position } from './object.js';

/** The least time in milliseconds between two reports. */
const interval = 1000;
/** The highest limit in milliseconds of the random delay after a report that has failed. */
const longest = 60_000;

/** How far a watch is applied. */
export interface Progress {
  /** Everything up to this position is applied. */
  readonly applied: Position | undefined;
  /** With an error: everything up to this position is applied, or has failed. */
  readonly attempted?: Position;
  /** Why the client cannot apply what comes after `applied`. */
  readonly error?: string;
  /** With an error: the keys of the objects that have failed. Undefined if a report cannot name so many. */
  readonly failed?: ReadonlySet<string>;
}

/** A report names at most so many failed keys, with so many bytes together. */
export const mostFailedKeys = 32;
const mostFailedKeyBytes = 4096;

/** failedKeysOf returns the failed keys that a report names: none if they are too many. */
export function failedKeysOf({ failed }: Progress): string[] {
  if (!failed || failed.size > mostFailedKeys) return [];
  const keys = [...failed].sort();
  const bytes = keys.reduce((sum, key) => sum + Buffer.byteLength(key), 0);
  return bytes > mostFailedKeyBytes ? [] : keys;
}

/** Reporter sends the latest progress of a watch, at most once a second. */
export class Reporter {
  #progress: Progress | undefined;
  #sent: Progress | undefined;
  #next = -Infinity; // when the next report may be sent
  readonly #backoff = new Backoff(interval, longest);
  #watch: OpenWatch | undefined;
  #newest: Position | undefined; // of the messages of the stream
  #sending = false;
  #timer: NodeJS.Timeout | undefined;

  /** opened begins to report for a watch. Without one, nothing is sent. */
  opened(watch: OpenWatch | undefined): void {
    this.#stop();
    this.#watch = watch;
    this.#backoff.reset();
    this.#next = Math.min(this.#next, performance.now() + interval);
    if (watch) this.#schedule();
  }

  /** received notes the position of a message. Nothing after it is reported, and nothing of another epoch. */
  received(position: Position | undefined): void {
    this.#newest = position;
  }

  /** forgotten notes that a RESET has ended: the server has forgotten the reports when it began. */
  forgotten(): void {
    this.#sent = undefined;
  }

  /** set sets the progress. */
  set(progress: Progress): void {
    this.#progress = progress;
    if (this.#watch) this.#schedule();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watch = undefined;
    this.#sent = undefined;
    this.#sending = false;
  }

  #schedule(): void {
    if (this.#timer || this.#sending || !this.#progress || sameProgress(this.#progress, this.#sent)) return;
    if (!this.#isKnown(this.#progress)) return;
    const wait = this.#next - performance.now();
    // Not even the first report is sent at once: others may follow in the same instant.
    this.#timer = setTimeout(() => void this.#send(), Math.max(0, wait));
  }

  /** #isKnown reports whether the server has sent everything that is applied. Otherwise it is sending a new state. */
  #isKnown({ applied }: Progress): boolean {
    const newest = this.#newest;
    return !applied || !newest || (applied.epoch === newest.epoch && applied.revision <= newest.revision);
  }

  async #send(): Promise<void> {
    this.#timer = undefined;
    const watch = this.#watch;
    const progress = this.#progress;
    if (!watch || !progress || !this.#isKnown(progress)) return;
    this.#sent = progress;
    this.#next = performance.now() + interval; // for another stream, which does not await the answer
    this.#sending = true;
    const error = await watch.report(reportOf(progress));
    if (this.#watch !== watch) return; // the answer says nothing about another stream
    this.#sending = false;
    let delay = interval;
    switch (error?.code) {
      case undefined:
        this.#backoff.reset();
        break;
      case status.UNIMPLEMENTED:
      case status.NOT_FOUND:
        this.#stop(); // the server does not know reports, or not this watch
        return;
      case status.INVALID_ARGUMENT:
        break; // it would be refused again
      default:
        delay = this.#backoff.next(Math.max(interval, error?.retryAfter ?? 0));
        this.#sent = undefined;
    }
    this.#next = performance.now() + delay;
    this.#schedule();
  }
}

function reportOf(progress: Progress): Report {
  const { applied, attempted, error } = progress;
  const report: Report = { failedKeys: failedKeysOf(progress) };
  if (applied) report.applied = applied;
  if (error !== undefined) {
    report.error = { code: status.UNKNOWN, message: error };
    report.attempted = attempted ?? { revision: 0n }; // absent would mean everything that was sent
  }
  return report;
}

function sameProgress(a: Progress, b: Progress | undefined): boolean {
  if (b === undefined || !samePosition(a.applied, b.applied) || !samePosition(a.attempted, b.attempted)) return false;
  return a.error === b.error && failedKeysOf(a).join('\0') === failedKeysOf(b).join('\0');
}
