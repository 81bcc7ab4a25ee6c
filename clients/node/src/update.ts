// Changes of an object that may race with others.

import { Backoff, pause } from './backoff.js';
import { Deadline, deadlineError, limited } from './deadline.js';
import { FanoutError } from './errors.js';
import type { StoredObject } from './object.js';
import type { CallOptions } from './options.js';
import { defaultTimeout } from './request.js';
import type { Conditional, PutOptions, Value, WriteOptions, WriteResult } from './write.js';

/** Returns the new value of an object, or undefined to leave it as it is. */
export type Change = (current: StoredObject | undefined) => Value | undefined | Promise<Value | undefined>;

/** Options of an update. */
export type UpdateOptions = Omit<PutOptions, keyof Conditional> & WriteOptions & CallOptions;

/** @internal What an update reads and writes. */
export interface Objects {
  get(key: string, options: CallOptions): Promise<{ readonly object: StoredObject }>;
  put(key: string, value: Value, options: PutOptions & WriteOptions & CallOptions): Promise<WriteResult>;
}

/** @internal update changes an object, as the method of resources does. It ends with the signal of the client, too. */
export async function update(
  objects: Objects,
  closing: AbortSignal,
  key: string,
  change: Change,
  options: UpdateOptions,
): Promise<WriteResult | undefined> {
  const deadline = new Deadline(options.timeout ?? defaultTimeout);
  for (const backoff = new Backoff(5, 1000); ; ) {
    const current = await find(objects, key, { ...options, timeout: deadline.left });
    const value = await limited(Promise.resolve(change(current)), { signals: [options.signal, closing], deadline });
    if (value === undefined) return undefined;
    try {
      return await objects.put(key, value, {
        // What the caller does not change stays.
        ...(current && { labels: current.labels, contentType: current.contentType, keepTTL: options.ttl === undefined }),
        ...given(options),
        timeout: deadline.left,
        ifModRevision: current?.modRevision ?? 0n,
      });
    } catch (error) {
      if (!(error instanceof FanoutError) || error.reason !== 'PRECONDITION_FAILED') throw error;
      const delay = backoff.next();
      if (deadline.left <= delay) throw deadlineError(error);
      await pause(delay, options.signal, closing);
    }
  }
}

/** given returns the options that are not undefined. */
function given(options: UpdateOptions): UpdateOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

async function find(objects: Objects, key: string, options: CallOptions): Promise<StoredObject | undefined> {
  try {
    return (await objects.get(key, options)).object;
  } catch (error) {
    if (error instanceof FanoutError && error.reason === 'KEY_NOT_FOUND') return undefined;
    throw error;
  }
}
