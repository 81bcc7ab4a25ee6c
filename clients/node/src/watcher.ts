// A watch that lasts.

import { performance } from 'node:perf_hooks';
import { status } from '@grpc/grpc-js';
import { Assembler, type Update } from './assembler.js';
import { Backoff, pause } from './backoff.js';
import type { OpenWatch, WatchStart } from './carrier.js';
import type { Connection } from './connection.js';
import type { ConnectionPool } from './connection_pool.js';
import { FanoutError, isFinal } from './errors.js';
import { WatchResponse_Kind as Kind } from './gen/fanout/v1/fanout_pb.js';
import type { Position } from './object.js';
import { Reporter } from './reporter.js';

/** How long in milliseconds a stream must last to count as a success. */
const lasting = 5000;
/** How long in milliseconds a stream must last before it is resumed at once when the server says so. */
const resumable = 1000;
/** The least time in milliseconds in which the first message of a stream may come. */
const firstSilence = 5000;

/** Takes the updates of a watch. */
export interface Receiver {
  /** receive takes an update. It returns false if the watch must wait for `room`. */
  receive(update: Update, size: number): boolean;
  room(signal: AbortSignal): Promise<void>;
  /** The stream has ended with this error, and the watch goes on. */
  interrupted(error: Error): void;
}

export interface WatcherSettings {
  /** What to watch. The watcher sets where to begin. */
  readonly request: WatchStart;
  /** The interval of bookmarks in milliseconds. */
  readonly bookmarks: number;
  readonly everyEvent: boolean;
  readonly after: Position | undefined;
  readonly fromNow: boolean;
  /** Whether the reporter is used. */
  readonly reports: boolean;
}

/** How an attempt has ended. */
interface End {
  readonly error?: Error | undefined;
  readonly silent?: boolean;
  readonly full?: boolean;
}

/**
 * Watcher keeps a watch open: it resumes at the position of the last complete state, notices silent servers, and
 * waits between attempts.
 */
export class Watcher {
  readonly #pool: ConnectionPool;
  readonly #settings: WatcherSettings;
  readonly #receiver: Receiver;
  readonly #backoff = new Backoff();
  readonly reporter = new Reporter();
  #position: Position | undefined;
  #worked = false;
  #renewed = false; // the token was refused, and asked for again

  constructor(pool: ConnectionPool, settings: WatcherSettings, receiver: Receiver) {
    this.#pool = pool;
    this.#settings = settings;
    this.#receiver = receiver;
    this.#position = settings.after;
  }

  /** run runs until the signal is aborted, or until an error that no retry can help. Either is thrown. */
  async run(signal: AbortSignal): Promise<never> {
    for (;;) {
      signal.throwIfAborted();
      const connection = this.#pool.connection();
      const attempt = new Attempt(connection, this.#request(), this.#settings.bookmarks, {
        receive: (update, size) => {
          this.#position = update.position;
          this.#worked = true;
          this.#renewed = false;
          return this.#receiver.receive(update, size);
        },
        room: (s) => this.#receiver.room(s),
        interrupted: () => {},
      }, this.reporter);
      const end = await attempt.run(signal);
      this.reporter.opened(undefined);
      signal.throwIfAborted();
      if (end.full) {
        await this.#receiver.room(signal);
        continue;
      }
      const delay = this.#after(connection, attempt, end);
      if (end.error) this.#receiver.interrupted(end.error);
      if (delay > 0) await pause(delay, signal);
    }
  }

  #request(): WatchStart {
    const { request, bookmarks, fromNow, reports } = this.#settings;
    const start = { ...request, reports } as Exclude<WatchStart, { $typeName: string }>;
    start.bookmarkInterval = { seconds: BigInt(Math.floor(bookmarks / 1000)), nanos: (bookmarks % 1000) * 1e6 };
    if (this.#position) {
      start.begin = { case: 'after', value: this.#position };
      delete start.consistency; // the position has its own revision
    } else if (fromNow && !this.#worked) {
      start.begin = { case: 'fromNow', value: {} };
    }
    return start;
  }

  /** #after returns the delay before the next attempt, or throws an error that no retry can help. */
  #after(connection: Connection, attempt: Attempt, { error, silent }: End): number {
    if (silent) connection.failed(connection);
    if (attempt.lasted >= lasting && attempt.received) this.#backoff.reset();
    const refusal = error instanceof FanoutError ? error : undefined;
    if (attempt.resumeAtOnce) {
      connection.failed(connection);
      if (attempt.lasted >= resumable) return 0;
    }
    if (refusal?.code === status.OUT_OF_RANGE) {
      if (this.#settings.everyEvent || !this.#position) throw refusal;
      this.#position = undefined; // the server can never continue from it
    } else if (refusal?.code === status.UNAUTHENTICATED && this.#pool.renewable && !this.#renewed) {
      this.#renewed = true;
    } else if (refusal && isFinal(refusal) && (refusal.reason !== undefined || !this.#worked)) {
      throw refusal;
    }
    if (attempt.drained && !attempt.resumeAtOnce) {
      // Others resume at the same moment.
      return Math.max(refusal?.retryAfter ?? 0, Math.random() * 1000);
    }
    return this.#backoff.next(refusal?.retryAfter);
  }
}

/** Attempt is one stream of a watch. */
class Attempt {
  readonly #connection: Connection;
  readonly #request: WatchStart;
  readonly #receiver: Receiver;
  readonly #reporter: Reporter;
  readonly #assembler = new Assembler();
  readonly #silence: number;
  readonly #began = performance.now();
  #watch: OpenWatch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #finish: (end: End) => void = () => {};
  #over = false;
  #reports = false;
  #paused = false;
  received = false;
  drained = false;
  resumeAtOnce = false;
  lasted = 0;

  constructor(connection: Connection, request: WatchStart, bookmarks: number, receiver: Receiver, reporter: Reporter) {
    this.#connection = connection;
    this.#request = request;
    this.#receiver = receiver;
    this.#reporter = reporter;
    this.#silence = 3 * bookmarks;
  }

  /** run returns when the stream has ended, or should. */
  run(signal: AbortSignal): Promise<End> {
    return new Promise((resolve) => {
      const abort = () => this.#finish({});
      this.#finish = (end) => {
        if (this.#over) return;
        this.#over = true;
        clearTimeout(this.#timer);
        signal.removeEventListener('abort', abort);
        this.lasted = performance.now() - this.#began;
        this.#watch?.stop();
        resolve(end);
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#await(Math.max(firstSilence, this.#silence));
      this.#watch = this.#connection.watch(this.#request, {
        message: (message, size) => {
          if (this.#over) return;
          this.received = true;
          if (!this.#paused) this.#await(this.#silence);
          if (message.kind === Kind.DRAINING) {
            this.drained = true;
            this.resumeAtOnce = message.resumeAtOnce;
          }
          const complete = this.#assembler.accept(message, size);
          if (!complete) return;
          if (!this.#reports) {
            // Only now the server has a position with which it can compare.
            this.#reports = true;
            this.#reporter.opened(this.#watch);
          }
          if (!this.#receiver.receive(complete.update, complete.size)) void this.#full(signal);
        },
        end: (error) => this.#finish({ error }),
      });
      if (this.#over) this.#watch.stop();
    });
  }

  /** #await ends the attempt if no message comes for so long. */
  #await(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#finish({ silent: true, error: new Error(`no message for ${milliseconds / 1000} seconds`) });
    }, milliseconds);
  }

  /** #full makes the server wait for the receiver. */
  async #full(signal: AbortSignal): Promise<void> {
    const watch = this.#watch;
    if (this.#paused) return;
    if (!watch?.pausable) {
      this.#finish({ full: true });
      return;
    }
    this.#paused = true;
    watch.pause();
    clearTimeout(this.#timer); // only the time counts in which we wait for a message
    try {
      await this.#receiver.room(signal);
    } catch {
      return; // aborted
    }
    this.#paused = false;
    if (this.#over) return;
    watch.resume();
    this.#await(this.#silence);
  }
}
