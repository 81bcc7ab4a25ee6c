// Watches of a resource.

import { anySignal } from './abort.js';
import type { Update } from './assembler.js';
import type { WatchStart } from './carrier.js';
import type { ConnectionPool } from './connection_pool.js';
import { Delivery } from './gen/fanout/v1/fanout_pb.js';
import { consistencyOf, scopeOf, selectorsOf, type FollowOptions, type WatchOptions } from './options.js';
import { UpdateQueue } from './update_queue.js';
import { Watcher } from './watcher.js';

/** The default interval of bookmarks in milliseconds. */
const defaultBookmarks = 10_000;

/** bookmarksOf returns the interval of bookmarks in milliseconds. */
export function bookmarksOf({ bookmarkInterval = defaultBookmarks }: FollowOptions): number {
  if (!(bookmarkInterval > 0)) throw new RangeError('bookmarkInterval must be positive');
  return bookmarkInterval;
}

/** startOf returns the request of a watch, except for where it begins. */
export function startOf(resource: string, options: FollowOptions): Exclude<WatchStart, { $typeName: string }> {
  const { latest = false, omitValues = false, jsonValues = false, maxBatchDelay = 0 } = options;
  const consistency = consistencyOf(options.consistency);
  return {
    resource,
    scope: scopeOf(options),
    ...selectorsOf(options),
    omitValues,
    jsonValues,
    delivery: latest ? Delivery.LATEST : Delivery.EVERY,
    ...(consistency && { consistency }),
    ...(maxBatchDelay > 0 && {
      maxBatchDelay: { seconds: BigInt(Math.floor(maxBatchDelay / 1000)), nanos: Math.floor(maxBatchDelay % 1000) * 1e6 },
    }),
  };
}

/** watch yields the updates of a watch. */
export async function* watch(pool: ConnectionPool, resource: string, options: WatchOptions): AsyncGenerator<Update, void, void> {
  const { after, fromNow = false, everyEvent = false, previousObject = false, reports = true, onInterruption } = options;
  const request = { ...startOf(resource, options), everyEvent, previousObject };
  const stopping = new AbortController();
  const signals = [stopping.signal, pool.closing, ...(options.signal ? [options.signal] : [])];
  const { signal, release } = anySignal(signals);
  const queue = new UpdateQueue();
  const watcher = new Watcher(
    pool,
    { request, bookmarks: bookmarksOf(options), everyEvent, after, fromNow, reports, metadata: options.metadata },
    {
      receive: (update, size) => queue.push(update, size),
      room: (s) => queue.room(s),
      interrupted: (error) => onInterruption?.(error),
    },
  );
  const running = watcher.run(signal).catch((error: unknown) => queue.end(error as Error));
  try {
    for (;;) {
      const update = await queue.take(signal);
      if (!update) return;
      yield update;
      // The caller asks for the next update, so it has applied this one.
      if (reports) watcher.reporter.set({ applied: update.position });
    }
  } finally {
    stopping.abort();
    await running;
    release();
  }
}
