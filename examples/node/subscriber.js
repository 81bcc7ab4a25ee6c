// A watch that lasts: it connects, resumes, notices silence and tries again.

import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { FanoutService } from './protocol.js';
import { Refusal } from './refusal.js';

// Milliseconds before the first and before every later attempt, at most. What is waited
// is drawn at random below it: subscribers that lose a server together do not come back
// together.
const firstDelay = 500;
const longestDelay = 30_000;

// Refused says that the server will never accept the watch.
export class Refused extends Error {}

// Silence says that nothing came, although bookmarks were asked for: the peer is gone.
class Silence extends Error {}

// Subscriber keeps a State at the present.
//
//   target    a gRPC target, such as '127.0.0.1:7420'
//   request   a WatchRequest that says what to watch; where to begin is filled in
//   state     the State
//   changed   called with each change of the state: what, key, object
//   noticed   called with what else happens: its name, and details
//   bookmarks milliseconds after which the server speaks if nothing happens
export class Subscriber {
  #target;
  #request;
  #state;
  #changed;
  #noticed;
  #silence;

  constructor({ target, request, state, changed, noticed, bookmarks = 10_000 }) {
    this.#target = target;
    this.#request = {
      ...request,
      bookmark_interval: { seconds: Math.floor(bookmarks / 1000), nanos: (bookmarks % 1000) * 1e6 },
    };
    this.#state = state;
    this.#changed = changed;
    this.#noticed = noticed;
    this.#silence = 3 * bookmarks;
  }

  // run runs until the signal is aborted, or throws Refused.
  async run(signal) {
    let limit = firstDelay;
    while (!signal.aborted) {
      let atLeast = 0;
      let why = 'the stream has ended';
      try {
        for await (const message of this.#watch(signal)) {
          this.#take(message);
          if (message.kind === 'KIND_SYNCED') limit = firstDelay;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Silence) {
          why = `nothing came for ${this.#silence / 1000} seconds`;
        } else if (error.metadata instanceof grpc.Metadata) {
          const refusal = new Refusal(error);
          if (refusal.final) throw new Refused(`${refusal}`, { cause: error });
          if (refusal.positionIsVoid) this.#state.position = null; // begin with a snapshot
          atLeast = refusal.retryAfter;
          why = `${refusal}`;
        } else {
          throw error;
        }
      }
      const delay = atLeast + Math.random() * limit;
      limit = Math.min(2 * limit, longestDelay);
      this.#noticed('disconnected', { why, retry_in: Math.round(delay) / 1000 });
      await sleep(delay, undefined, { signal }).catch(() => {}); // the loop looks at the signal
    }
  }

  // #watch yields the messages of one stream, which begins where the state is.
  async *#watch(signal) {
    const request = { ...this.#request };
    if (this.#state.position) request.after = this.#state.position;
    // Each attempt has a connection of its own. One that is used again could be the dead
    // one, or wait longer than we do.
    const client = new FanoutService(this.#target, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    const stream = client.Watch(request);
    const cancel = () => stream.cancel();
    signal.addEventListener('abort', cancel);
    try {
      const messages = stream[Symbol.asyncIterator]();
      for (;;) {
        // The next message is asked for when the last one was dealt with: who is slow is
        // not silent, and the server waits.
        const { value, done } = await within(this.#silence, messages.next());
        if (done) return;
        yield value;
      }
    } finally {
      signal.removeEventListener('abort', cancel);
      stream.on('error', () => {}); // that it was cancelled is no news
      stream.cancel();
      client.close();
    }
  }

  // #take applies a message and tells of it.
  #take(message) {
    if (message.kind === 'KIND_CATCH_UP_BEGIN') {
      this.#noticed('catch-up', { kind: message.catch_up.replace('CATCH_UP_', '') });
    }
    for (const [what, key, object] of this.#state.apply(message)) this.#changed(what, key, object);
    const name = { KIND_SYNCED: 'synced', KIND_BOOKMARK: 'bookmark', KIND_DRAINING: 'draining' };
    if (message.kind in name) this.#noticed(name[message.kind], {});
  }
}

// within waits for a promise, but not for ever.
async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Silence()), milliseconds);
  });
  promise.catch(() => {}); // it may fail when nobody waits for it any more
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
