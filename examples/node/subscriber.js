// A watch that lasts: it connects, resumes, notices silence and retries.

import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { FanoutService } from './protocol.js';
import { Refusal } from './refusal.js';

// The limits in milliseconds of the first delay and of all delays. A delay is random
// between zero and its limit, so that subscribers that lose a server together do not come
// back together.
const firstDelay = 500;
const longestDelay = 30_000;

// How long in milliseconds a stream must last before it is resumed at once when the server
// says so.
const resumeAfter = 1000;

// Refused is thrown if the server will never accept the watch.
export class Refused extends Error {}

// Silence is thrown if no message came for three bookmark intervals: the server is gone.
class Silence extends Error {}

// Subscriber keeps a State up to date.
//
//   target    a gRPC target, such as '127.0.0.1:7420'
//   request   a WatchRequest that says what to watch; the subscriber sets where to begin
//   state     the State
//   onChange  called for each change of the state: what, key, object
//   onEvent   called for everything else: its name, and details
//   bookmarks the bookmark interval in milliseconds
export class Subscriber {
  #target;
  #request;
  #state;
  #onChange;
  #onEvent;
  #maxSilence;

  constructor({ target, request, state, onChange, onEvent, bookmarks = 10_000 }) {
    this.#target = target;
    this.#request = {
      ...request,
      bookmark_interval: { seconds: Math.floor(bookmarks / 1000), nanos: (bookmarks % 1000) * 1e6 },
    };
    this.#state = state;
    this.#onChange = onChange;
    this.#onEvent = onEvent;
    this.#maxSilence = 3 * bookmarks;
  }

  // run runs until the signal is aborted, or throws Refused.
  async run(signal) {
    let limit = firstDelay;
    while (!signal.aborted) {
      let atLeast = 0;
      let why = 'the stream has ended';
      let atOnce = false;
      const began = performance.now();
      try {
        for await (const message of this.#watch(signal)) {
          this.#handle(message);
          atOnce = message.resume_at_once;
          if (message.kind === 'KIND_SYNCED') limit = firstDelay;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Silence) {
          why = `nothing came for ${this.#maxSilence / 1000} seconds`;
        } else if (error.metadata instanceof grpc.Metadata) {
          const refusal = new Refusal(error);
          if (refusal.final) throw new Refused(`${refusal}`, { cause: error });
          if (refusal.positionLost) this.#state.position = null; // begin with a snapshot
          atLeast = refusal.retryAfter;
          why = `${refusal}`;
        } else {
          throw error;
        }
      }
      let delay = 0; // if the server ends its watches one after the other
      if (!atOnce || performance.now() - began < resumeAfter) {
        delay = atLeast + Math.random() * limit;
        limit = Math.min(2 * limit, longestDelay);
      }
      this.#onEvent('disconnected', { why, retry_in: Math.round(delay) / 1000 });
      await sleep(delay, undefined, { signal }).catch(() => {}); // the loop checks the signal
    }
  }

  // #watch yields the messages of one stream, which begins at the position of the state.
  async *#watch(signal) {
    const request = { ...this.#request };
    if (this.#state.position) request.after = this.#state.position;
    // Use a new connection for each attempt. The old one could be dead, or wait longer
    // than we do before it reconnects.
    const client = new FanoutService(this.#target, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const stream = client.Watch(request);
    const cancel = () => stream.cancel();
    signal.addEventListener('abort', cancel);
    try {
      const messages = stream[Symbol.asyncIterator]();
      for (;;) {
        // Read only when the previous message is handled. So the time limit does not
        // include our own work, and the server waits for us.
        const { value, done } = await within(this.#maxSilence, messages.next());
        if (done) return;
        yield value;
      }
    } finally {
      signal.removeEventListener('abort', cancel);
      stream.on('error', () => {}); // cancelling the stream causes an error
      stream.cancel();
      client.close();
    }
  }

  // #handle applies a message and reports what happened.
  #handle(message) {
    if (message.kind === 'KIND_CATCH_UP_BEGIN') {
      this.#onEvent('catch-up', { kind: message.catch_up.replace('CATCH_UP_', '') });
    }
    for (const [what, key, object] of this.#state.apply(message)) this.#onChange(what, key, object);
    const name = { KIND_SYNCED: 'synced', KIND_BOOKMARK: 'bookmark', KIND_DRAINING: 'draining' };
    if (message.kind in name) this.#onEvent(name[message.kind], {});
  }
}

// within waits for a promise, or throws Silence.
async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Silence()), milliseconds);
  });
  promise.catch(() => {}); // it may fail after the time limit
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
