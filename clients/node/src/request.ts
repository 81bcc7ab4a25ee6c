// Requests with one response.

import { performance } from 'node:perf_hooks';
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { pause } from './backoff.js';
import type { ConnectionPool } from './connection_pool.js';
import { Deadline, deadlineError } from './deadline.js';
import { FanoutError, UnsentError } from './errors.js';
import type { Method } from './methods.js';
import type { CallOptions } from './options.js';

/** How long a request may take in milliseconds, if the caller does not say. */
export const defaultTimeout = 30_000;

/** How often a read is sent. The pauses in between are about 0.2, 0.6 and 1.8 s. */
export const readAttempts = 4;
const firstPause = 200;
const pauseFactor = 3;

/** A request of a method. All known ones have these fields. */
type Named = Readonly<{ resource?: string }>;

/** Request sends a request until it has a response, or until an error that another attempt cannot help. */
export class Request<I extends DescMessage, O extends DescMessage> {
  readonly #pool: ConnectionPool;
  readonly #method: Method<I, O>;
  readonly #message: MessageInitShape<I>;
  readonly #options: CallOptions;
  readonly #deadline: Deadline;
  #sent = 0;

  constructor(pool: ConnectionPool, method: Method<I, O>, message: MessageInitShape<I>, options: CallOptions) {
    this.#pool = pool;
    this.#method = method;
    this.#message = options.jsonValues ? { ...message, jsonValues: true } : message;
    this.#options = options;
    this.#deadline = new Deadline(options.timeout ?? defaultTimeout);
  }

  /** send sends the request at most so many times. */
  async send(attempts: number): Promise<MessageShape<O>> {
    const began = performance.now();
    let code = status.OK;
    try {
      return await this.#repeat(attempts);
    } catch (error) {
      code = error instanceof FanoutError ? error.code : status.CANCELLED;
      throw error;
    } finally {
      this.#pool.hooks.call('request', {
        method: this.#method.name,
        resource: (this.#message as Named).resource ?? '',
        code: status[code],
        duration: performance.now() - began,
        attempts: this.#sent,
      });
    }
  }

  async #repeat(attempts: number): Promise<MessageShape<O>> {
    let next = firstPause;
    let failure: FanoutError | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#attempt();
      } catch (error) {
        if (!(error instanceof FanoutError)) throw error;
        if (error.code === status.DEADLINE_EXCEEDED && failure) throw deadlineError(failure);
        if (attempt >= attempts || !isTransient(error)) throw error;
        failure = error;
      }
      const delay = Math.max(next * (0.8 + 0.4 * Math.random()), failure.retryAfter ?? 0);
      next *= pauseFactor;
      if (delay >= this.#deadline.left) throw deadlineError(failure);
      await pause(delay, this.#options.signal, this.#pool.closing);
    }
  }

  /** #attempt sends the request once; twice if another token may help, because a refused request has done nothing. */
  async #attempt(): Promise<MessageShape<O>> {
    const { signal, metadata } = this.#options;
    const deadline = this.#deadline;
    for (let renewed = false; ; ) {
      signal?.throwIfAborted();
      const connection = await this.#pool.connect({ signal, deadline });
      try {
        return await connection.call(this.#method, this.#message, { signal, deadline, metadata, sent: () => this.#sent++ });
      } catch (error) {
        if (error instanceof UnsentError) continue;
        const refused = error instanceof FanoutError && error.code === status.UNAUTHENTICATED;
        if (!refused || renewed || !this.#pool.renewable) throw error;
        renewed = true;
        this.#pool.renew(connection);
      }
    }
  }
}

/** isTransient reports whether a read may succeed a little later. */
function isTransient({ code, retryAfter, reason }: FanoutError): boolean {
  return (code === status.UNAVAILABLE && reason !== 'REVISION_NOT_REACHED') || (code === status.RESOURCE_EXHAUSTED && retryAfter !== undefined);
}
