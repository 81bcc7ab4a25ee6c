// The request of a watch.

import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { WatchStart } from './carrier.js';
import { Delivery } from './gen/fanout/v1/fanout_pb.js';
import { consistencyOf, scopeOf, selectorsOf, type FollowOptions } from './options.js';

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
    ...(maxBatchDelay > 0 && { maxBatchDelay: durationFromMs(Math.floor(maxBatchDelay)) }),
  };
}
