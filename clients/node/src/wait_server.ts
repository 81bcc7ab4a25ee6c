// The servers of a wait. Each one knows only its own watches, so each one is asked.

import type { MessageInitShape } from '@bufbuild/protobuf';
import { lookup as lookupName } from 'node:dns/promises';
import { isIP } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { Backoff, pause } from './backoff.js';
import type { ConnectionPool } from './connection_pool.js';
import { Deadline } from './deadline.js';
import { FanoutError, finalCodes, unavailable } from './errors.js';
import { WatchAppliedRequestSchema, WatchAppliedResponseSchema, type WatchAppliedResponse } from './gen/fanout/v1/admin_pb.js';
import { method } from './methods.js';

const watchApplied = method('/fanout.v1.AdminService/', 'WatchApplied', WatchAppliedRequestSchema, WatchAppliedResponseSchema);

export type WaitRequest = MessageInitShape<typeof WatchAppliedRequestSchema>;

/** An answer of a server, or the error that has interrupted it. */
export interface Answer {
  /** The index of the server. */
  readonly server: number;
  readonly response?: WatchAppliedResponse;
  readonly error?: Error;
  /** No retry can help. */
  readonly final?: boolean;
}

/**
 * The milliseconds that a server has for its first answer, the connection included. Later, it is silent while nothing
 * changes, and keepalive finds out whether it is still there.
 */
const firstAnswer = 10_000;
/** A stream that lasted so long makes the delays short again. */
const steady = 5000;
/** A name that DNS does not know by then is left to the connection. */
const longestLookup = 5000;

/** Follower asks one server again and again, and passes its answers on. */
export class Follower {
  readonly #server: number;
  readonly #pool: ConnectionPool;
  readonly #request: WaitRequest;
  readonly #pass: (answer: Answer) => void;
  /** The server has answered once, on any stream. */
  #answered = false;

  constructor(server: number, pool: ConnectionPool, request: WaitRequest, pass: (answer: Answer) => void) {
    this.#server = server;
    this.#pool = pool;
    this.#request = request;
    this.#pass = pass;
  }

  /** run opens one stream after another until the signal is aborted or an error is final. It does not reject. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff();
    for (;;) {
      const began = performance.now();
      const { answered, error } = await this.#stream(signal);
      if (signal.aborted) return;
      const final = this.#isFinal(answered, error);
      this.#pass({ server: this.#server, error, final });
      if (final) return;
      if (answered && performance.now() - began >= steady) backoff.reset();
      const retryAfter = error instanceof FanoutError ? error.retryAfter : undefined;
      try {
        await pause(backoff.next(retryAfter), signal);
      } catch {
        return; // the signal was aborted
      }
    }
  }

  /** #stream opens one stream. It resolves to whether there was an answer, and why the stream has ended. */
  async #stream(signal: AbortSignal): Promise<{ answered: boolean; error: Error }> {
    let answered = false;
    let connection;
    try {
      connection = await this.#pool.connect({ signal, deadline: new Deadline(firstAnswer) });
    } catch (error) {
      return { answered, error: error as Error };
    }
    const { promise, end } = ending();
    const stop = connection.stream(watchApplied, this.#request, {
      message: (response) => {
        clearTimeout(silence);
        answered = this.#answered = true;
        this.#pass({ server: this.#server, response });
      },
      end: (error) => end(error ?? unavailable('the server has ended the stream')),
    });
    const silence = setTimeout(() => end(unavailable(`no answer for ${firstAnswer / 1000} s`)), firstAnswer);
    const abort = () => end(signal.reason as Error);
    signal.addEventListener('abort', abort);
    const error = await promise;
    clearTimeout(silence);
    signal.removeEventListener('abort', abort);
    stop();
    this.#pool.failed(connection); // the next attempt has another connection and other credentials
    return { answered, error };
  }

  /** #isFinal reports whether another stream would end with the same error. */
  #isFinal(answered: boolean, error: Error): boolean {
    if (!(error instanceof FanoutError)) return true;
    if (error.code === status.UNAUTHENTICATED) return !answered; // otherwise the credentials have expired, and there may be new ones
    // An error without a reason comes from a proxy, or from a server that lacks the method.
    const final = finalCodes.has(error.code) || error.code === status.OUT_OF_RANGE;
    return final && (error.reason !== undefined || !this.#answered);
  }
}

function ending(): { promise: Promise<Error>; end: (error: Error) => void } {
  let end!: (error: Error) => void;
  const promise = new Promise<Error>((resolve) => (end = resolve));
  return { promise, end };
}

/** One server, and the name that its certificate must have if that is not the host of the address. */
export interface ServerAddress {
  readonly address: string;
  readonly name?: string;
}

type Lookup = (host: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

/**
 * eachAddress returns the servers behind an address. A DNS name with several addresses stands for one server per address.
 * If it has both IPv4 and IPv6 addresses, only those of one kind count, because they probably belong to the same machines.
 */
export async function eachAddress(
  address: string,
  timeout = longestLookup,
  lookup: Lookup = (host) => lookupName(host, { all: true }),
): Promise<readonly ServerAddress[]> {
  const [, host, port] = /^(?:dns:(?:\/\/\/)?)?([^:/[\]]+):(\d+)$/.exec(address) ?? [];
  if (host === undefined || host === 'localhost' || isIP(host) !== 0) return [{ address }];
  const late = new AbortController();
  const found = await Promise.race([
    lookup(host).catch(() => []), // connecting will report the error
    sleep(Math.min(timeout, longestLookup), [], { signal: late.signal }).catch(() => []),
  ]);
  late.abort();
  const first = found[0]?.family;
  // DNS servers rotate the order.
  const addresses = [...new Set(found.filter(({ family }) => family === first).map((one) => one.address))].sort();
  if (addresses.length < 2) return [{ address }];
  return addresses.map((ip) => ({ address: first === 6 ? `[${ip}]:${port}` : `${ip}:${port}`, name: host }));
}
