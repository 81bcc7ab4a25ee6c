// A watch that lasts.

import { performance } from 'node:perf_hooks';
import { durationFromMs, durationMs } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import { onAbort } from './abort.js';
import { Assembler, type CompleteUpdate } from './assembler.js';
import { Backoff, longestRetryAfter, pause } from './backoff.js';
import type { OpenWatch, WatchStart } from './carrier.js';
import type { Connection } from './connection.js';
import type { ConnectionPool } from './connection_pool.js';
import { FanoutError, isFinal, unavailable } from './errors.js';
import { Confirmations, freshFor } from './freshness.js';
import { WatchResponse_CatchUp as CatchUp, WatchResponse_Kind as Kind, type WatchResponse } from './gen/fanout/v1/fanout_pb.js';
import type { Position } from './object.js';
import type { RequestMetadata } from './options.js';
import type { Hooks, WatchReceived } from './observer.js';
import { Reporter } from './reporter.js';

/** How long in milliseconds a stream must last to count as a success. */
const lasting = 5000;
/** How long in milliseconds a stream must last before it is resumed at once when the server says so. */
const resumable = 1000;
/** How many shorter streams in a row are resumed at once. */
const mostHurried = 3;
/** The least time in milliseconds in which the first message of a stream may come. */
const firstSilence = 5000;
/** How long in milliseconds whoever issues tokens may take for a new one. */
const renewalDelay = 5000;

/** Takes the updates of a watch. */
export interface Receiver {
  /** receive takes an update. It returns false if the watch must wait for `room`. */
  receive(update: CompleteUpdate, size: number): boolean;
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
  /** Metadata of gRPC. The watch then has a stream of its own. */
  readonly metadata?: RequestMetadata | undefined;
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
  readonly #confirmations = new Confirmations();
  readonly reporter = new Reporter();
  #position: Position | undefined;
  #lostPosition = false;
  #worked = false;
  #refused = false; // the latest token or certificate
  #hurried = 0; // how many streams in a row were too short to be resumed at once

  constructor(pool: ConnectionPool, settings: WatcherSettings, receiver: Receiver) {
    this.#pool = pool;
    this.#settings = settings;
    this.#receiver = receiver;
    this.#position = settings.after?.revision ? settings.after : undefined; // at revision 0, there is none
  }

  /** run runs until the signal is aborted, or until an error that no retry can help. Either is thrown. */
  async run(signal: AbortSignal): Promise<never> {
    try {
      for (;;) await this.#stream(signal);
    } catch (error) {
      if (!signal.aborted && error instanceof FanoutError) {
        this.#pool.hooks.call('watchEnded', { resource: this.#resource, ...nameOf(error) });
      }
      throw error;
    }
  }

  get #resource(): string {
    return this.#settings.request.resource ?? '';
  }

  /** #stream follows one stream, and waits until the next one may begin. */
  async #stream(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    let connection: Connection;
    try {
      connection = await this.#pool.connect({ signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof FanoutError)) throw error;
      await this.#interrupted(error, this.#backoff.next(), '', signal);
      return;
    }
    signal.throwIfAborted(); // perhaps since the connection is there
    const attempt = new Attempt(
      connection,
      this.#request(),
      this.#settings,
      this.#confirmations,
      {
        receive: (update, size) => {
          this.#position = update.position;
          return this.#receiver.receive(update, size);
        },
        room: (s) => this.#receiver.room(s),
        interrupted: () => {},
      },
      this.reporter,
      this.#pool.hooks,
    );
    const end = await attempt.run(signal);
    this.reporter.opened(undefined);
    signal.throwIfAborted();
    this.#note(attempt);
    if (end.full) {
      await this.#receiver.room(signal);
      return;
    }
    const delay = this.#after(connection, attempt, end);
    // The time limit of a watch is not an interruption.
    if (end.error) await this.#interrupted(end.error, delay, connection.address, signal);
    else await pause(delay, signal);
  }

  async #interrupted(error: Error, delay: number, server: string, signal: AbortSignal): Promise<void> {
    this.#pool.interruptions.add({ resource: this.#resource, server, error, delay });
    this.#pool.hooks.call('watchInterrupted', { resource: this.#resource, ...nameOf(error), delay });
    this.#receiver.interrupted(error);
    if (delay > 0) await pause(delay, signal);
  }

  #request(): WatchStart {
    const { request, bookmarks, fromNow, reports } = this.#settings;
    const start = { ...request, reports } as Exclude<WatchStart, { $typeName: string }>;
    start.bookmarkInterval = durationFromMs(bookmarks);
    if (this.#position) {
      start.begin = { case: 'after', value: this.#position };
      delete start.consistency; // the position has its own revision
    } else if (fromNow && !this.#lostPosition) {
      start.begin = { case: 'fromNow', value: {} };
    }
    // A revision of the first start may belong to another epoch.
    if (this.#lostPosition && start.consistency?.level?.case !== 'any') delete start.consistency;
    return start;
  }

  /** #note notes how a stream went. */
  #note(attempt: Attempt): void {
    if (attempt.progressed) {
      this.#worked = true;
      this.#refused = false;
    }
    if (attempt.steady) this.#backoff.reset();
    if (attempt.lasted >= resumable) this.#hurried = 0;
    else if (attempt.resumeAtOnce) this.#hurried++;
  }

  /** #after returns the delay before the next attempt, or throws an error that no retry can help. */
  #after(connection: Connection, attempt: Attempt, { error, silent }: End): number {
    const refusal = error instanceof FanoutError ? error : undefined;
    if (silent || attempt.resumeAtOnce) this.#pool.failed(connection);
    const least = Math.min(refusal?.retryAfter ?? 0, longestRetryAfter);
    let renewal = 0;
    if (refusal?.code === status.OUT_OF_RANGE) {
      // A first state may take longer than etcd keeps its history. The next attempt may be faster.
      const exact = !this.#lostPosition && this.#settings.request.consistency?.level?.case === 'exactRevision';
      const slow = refusal.reason === 'POSITION_EXPIRED' && !exact;
      if (this.#settings.everyEvent || (!this.#position && !slow)) throw refusal;
      this.#position = undefined; // the server can never continue from it
      this.#lostPosition = true;
    } else if (refusal?.code === status.UNAUTHENTICATED) {
      // There may be a newer token or certificate by now.
      if (!this.#pool.renewable || this.#refused) throw refusal;
      this.#refused = true;
      this.#pool.renew(connection);
      if (this.#worked) renewal = renewalDelay;
    } else if (refusal && isFinal(refusal) && (refusal.reason !== undefined || !this.#worked)) {
      throw refusal;
    }
    if (!silent) connection.watchFailed(refusal);
    if (attempt.resumeAtOnce) return this.#hurried <= mostHurried ? 0 : this.#backoff.next(least);
    if (error && attempt.progressed && (attempt.drained || refusal?.reason === 'DRAINING')) {
      // Others resume at the same moment.
      return renewal + Math.random() * Math.max(least, 1000) + (attempt.steady ? 0 : this.#backoff.next());
    }
    return this.#backoff.next(least + renewal);
  }
}

/** nameOf returns the names of the code and the reason of an error, for hooks. */
function nameOf(error: Error): { code: string; reason: string } {
  return error instanceof FanoutError ? { code: error.codeName, reason: error.reason ?? '' } : { code: 'UNAVAILABLE', reason: '' };
}

/**
 * silenceAfter returns how long a server may be silent after a message: three bookmark intervals. The age of the message
 * counts as silence, so that a client leaves a server that has just lost etcd when its state becomes stale. If it is
 * stale already, the server gets the whole time: other servers may have lost etcd, too.
 */
export function silenceAfter(age: number, bookmarks: number): number {
  const most = 3 * bookmarks;
  const left = freshFor(bookmarks) - age;
  // A server that sends many old events also states an age. It must not be left between two of them.
  return left > 0 ? Math.min(Math.max(left, firstSilence), most) : most;
}

const catchUps: Partial<Record<CatchUp, 'reset' | 'delta' | 'replay'>> = {
  [CatchUp.RESET]: 'reset',
  [CatchUp.DELTA]: 'delta',
  [CatchUp.REPLAY]: 'replay',
};

/** Attempt is one stream of a watch. */
class Attempt {
  readonly #connection: Connection;
  readonly #request: WatchStart;
  readonly #settings: WatcherSettings;
  readonly #confirmations: Confirmations;
  readonly #receiver: Receiver;
  readonly #reporter: Reporter;
  readonly #hooks: Hooks;
  readonly #assembler = new Assembler();
  #silence: number; // how long the server may be silent now
  #catchUp: WatchReceived['catchUp'] = '';
  readonly #began = performance.now();
  #watch: OpenWatch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #finish: (end: End) => void = () => {};
  #over = false;
  #reports = false;
  #paused = false;
  #received = false;
  /** The stream was synced, or has sent events or a bookmark. */
  progressed = false;
  drained = false;
  resumeAtOnce = false;
  lasted = 0;

  /** The stream has worked for long enough to make the delays short again. */
  get steady(): boolean {
    return this.progressed && this.lasted >= lasting;
  }

  constructor(
    connection: Connection,
    request: WatchStart,
    settings: WatcherSettings,
    confirmations: Confirmations,
    receiver: Receiver,
    reporter: Reporter,
    hooks: Hooks,
  ) {
    this.#connection = connection;
    this.#request = request;
    this.#settings = settings;
    this.#confirmations = confirmations;
    confirmations.requested(this.#began, request.begin?.case === undefined && request.consistency === undefined);
    this.#receiver = receiver;
    this.#reporter = reporter;
    this.#hooks = hooks;
    this.#silence = Math.max(firstSilence, 3 * settings.bookmarks);
  }

  /** run returns when the stream has ended, or should. */
  run(signal: AbortSignal): Promise<End> {
    return new Promise((resolve) => {
      let release = () => {};
      this.#finish = (end) => {
        if (this.#over) return;
        this.#over = true;
        clearTimeout(this.#timer);
        release();
        this.lasted = performance.now() - this.#began;
        this.#watch?.stop();
        resolve(end);
      };
      release = onAbort(signal, () => this.#finish({}));
      const sink = {
        asked: () => {
          if (!this.#over) this.#await();
        },
        message: (message: WatchResponse, size: number) => {
          if (!this.#over) this.#receive(message, size, signal);
        },
        end: (error?: FanoutError) => this.#finish({ error }),
      };
      this.#watch = this.#connection.watch(this.#request, sink, this.#settings.metadata);
      if (this.#over) this.#watch.stop();
    });
  }

  #receive(message: WatchResponse, size: number, signal: AbortSignal): void {
    if (this.drained) return; // only the end of the stream counts: what was held back is lost
    this.#silence = silenceAfter(message.age ? durationMs(message.age) : 0, this.#settings.bookmarks);
    if (!this.#paused) this.#await();
    switch (message.kind) {
      case Kind.CATCH_UP_BEGIN:
        this.#catchUp = catchUps[message.catchUp] ?? 'replay';
        break;
      case Kind.CATCH_UP_PART:
        break;
      case Kind.DRAINING:
        this.drained = true;
        this.resumeAtOnce = message.resumeAtOnce;
        break;
      default:
        this.progressed = true;
    }
    this.#observe(message);
    this.#reporter.received(message.position);
    this.#confirmations.note(message, performance.now());
    const complete = this.#assembler.accept(message, size, this.#confirmations.at);
    if (!complete) return;
    if (!this.#reports) {
      // Only now the server has a position with which it can compare.
      this.#reports = true;
      this.#reporter.opened(this.#watch);
    } else if (complete.update.replace) {
      this.#reporter.forgotten();
    }
    if (!this.#receiver.receive(complete.update, complete.size)) void this.#full(signal);
  }

  #observe({ kind, events }: WatchResponse): void {
    const { resource = '', begin } = this.#request;
    if (!this.#received) {
      this.#received = true;
      const { address: server } = this.#connection;
      this.#hooks.call('watchOpened', { resource, server, resumed: begin?.case === 'after', shared: !this.#watch?.pausable });
    }
    const synced = kind === Kind.SYNCED;
    if (this.#hooks.has('watchReceived') && (synced || events.length > 0)) {
      this.#hooks.call('watchReceived', { resource, events: events.length, catchUp: this.#catchUp, synced });
    }
    if (synced) this.#catchUp = '';
  }

  /** #await ends the attempt if the server is silent for too long. */
  #await(): void {
    clearTimeout(this.#timer);
    const silence = this.#silence;
    this.#timer = setTimeout(() => {
      this.#finish({ silent: true, error: unavailable(`no message for ${silence / 1000} seconds`) });
    }, silence);
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
    this.#await();
  }
}
