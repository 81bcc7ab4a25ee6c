// What a wait knows, and the errors that end it.

import type { FanoutError } from './errors.js';
import type { Position } from './object.js';

/** A watch that has not applied a revision. */
export interface PendingWatch {
  /** The instance; else the identity and address of the client; else the id. */
  readonly name: string;
  /** The address of its server. */
  readonly server: string;
  /** Identifies the watch among those of all servers. */
  readonly id: string;
  /** The name of its program. Empty if it has none. */
  readonly instance: string;
  /** The labels of its program. */
  readonly labels: Readonly<Record<string, string>>;
  /** The authenticated identity, the address and the user agent of its client. Any of them may be empty. */
  readonly identity: string;
  readonly peer: string;
  readonly userAgent: string;
  /** When it began. */
  readonly since: Date;
  /** The position that it has reported as applied. Its revision is 0 if it has never reported one. */
  readonly applied: Position;
  /** How many milliseconds the oldest event after `applied` has waited. */
  readonly appliedLag: number;
  /** The last error that it has reported, and when. */
  readonly error: FanoutError | undefined;
  readonly errorTime: Date | undefined;
  /** It has attempted the revision, so the error counts. Otherwise the revision may be what corrects it. */
  readonly failed: boolean;
  /** The keys of the objects that it cannot apply, if it has named them. */
  readonly failedKeys: readonly string[];
}

/** What a wait knows of one server. */
export interface WaitServer {
  /** Its address: for one of several servers behind a name, the IP address and port. */
  readonly address: string;
  /** It has answered at least once. */
  readonly answered: boolean;
  /** It can be reached, and the numbers are current. Otherwise they are its last ones, and do not count. */
  readonly answering: boolean;
  /** Why it does not answer. Undefined before the first attempt has failed. */
  readonly error: Error | undefined;
  /** The numbers of its watches, as in {@link WaitStatus}. */
  readonly watches: number;
  readonly applied: number;
  readonly failed: number;
  readonly notReporting: number;
}

/** What a wait knows at one moment. */
export class WaitStatus {
  /** The revision that the watches must apply. */
  declare readonly revision: bigint;
  /** The wait ends with this status: the quorum is reached, or too many watches have failed. */
  declare readonly ended: boolean;
  /** The newest revision that a server is known to have; 0: unknown. A later one may not exist yet. */
  declare readonly newest: bigint;
  /** The number of affected watches of the servers that answer. */
  declare readonly watches: number;
  /** The largest value of `watches` within the last `settle` milliseconds. */
  declare readonly recentWatches: number;
  /** How many watches have applied the revision. */
  declare readonly applied: number;
  /** How many must have applied it. */
  declare readonly required: number;
  /** How many have attempted the revision, have not applied it, and have reported an error. */
  declare readonly failed: number;
  /**
   * The watches that have not applied it: first those that failed, then others with an error, then the oldest. Each server
   * names at most 100.
   */
  declare readonly pending: readonly PendingWatch[];
  /** How many watches do not count because they do not report. */
  declare readonly notReporting: number;
  /** The oldest of these. Each server names at most 20. */
  declare readonly uncounted: readonly PendingWatch[];
  /** All servers. */
  declare readonly servers: readonly WaitServer[];

  /** @internal */
  constructor(fields: Omit<WaitStatus, 'missing' | 'toString' | 'detail'>) {
    Object.assign(this, fields);
  }

  /** The servers that do not answer. */
  get missing(): readonly WaitServer[] {
    return this.servers.filter(({ answering }) => !answering);
  }

  /** toString returns the numbers in one line, such as `3 of 5 watches have applied revision 7`. */
  toString(): string {
    const { applied, watches, revision, failed, required, recentWatches, notReporting, newest } = this;
    let text =
      watches === 1
        ? `${applied} of 1 watch has applied revision ${revision}`
        : `${applied} of ${watches} watches have applied revision ${revision}`;
    if (failed > 0) text += `, ${failed} failed`;
    if (required > applied) text += `, want ${required}`;
    if (recentWatches > watches) text += `, ${recentWatches - watches} ended recently`;
    if (notReporting > 0) text += `, ${notReporting} ${notReporting === 1 ? 'does' : 'do'} not report`;
    for (const { address } of this.missing) text += `, no answer from ${address}`;
    if (newest > 0n && newest < revision) {
      text += `; revision ${revision} does not exist yet, or no server has received it: the newest is ${newest}`;
    }
    return text;
  }

  /** detail returns the numbers, and the first watches that have not applied the revision. */
  detail(): string {
    if (this.watches <= this.applied) return this.toString();
    const names = this.pending.map(({ name }) => name);
    return `${this.toString()}; not applied by ${firstFew(names, this.watches - this.applied, ', ')}`;
  }
}

/** More watches have failed than a wait tolerates. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  /** The watches that have failed. Each server names at most 100; `status.failed` counts all. */
  readonly failures: readonly PendingWatch[];

  /** @param status The last status. */
  constructor(readonly status: WaitStatus) {
    const failures = status.pending.filter(({ failed }) => failed);
    const reports = failures.map(({ name, error }) => `${name}: ${error?.message ?? ''}`);
    const noun = status.failed === 1 ? 'watch' : 'watches';
    super(`${status.failed} ${noun} cannot apply revision ${status.revision}: ${firstFew(reports, status.failed, '; ')}`);
    this.failures = failures;
  }
}

/** The timeout of a wait is over before its quorum is reached. */
export class NotReachedError extends Error {
  override readonly name = 'NotReachedError';

  /** @param status The last status. */
  constructor(readonly status: WaitStatus) {
    super(`${status.detail()}: the timeout is over`);
  }
}

/** firstFew joins the first of the texts and adds the number of the others. */
function firstFew(texts: readonly string[], count: number, separator: string): string {
  const shown = texts.slice(0, 3);
  const text = shown.join(separator);
  return count > shown.length ? `${text} and ${count - shown.length} more` : text;
}
