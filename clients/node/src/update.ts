// Changes of an object that may race with others.

import { Backoff, pause } from './backoff.js';
import { Deadline, deadlineError } from './deadline.js';
import { FanoutError } from './errors.js';
import type { StoredObject } from './object.js';
import type { CallOptions } from './options.js';
import type { Resource, WriteResult } from './resource.js';
import type { Conditional, PutOptions, Value } from './write.js';
import { within } from './within.js';

/** Returns the new value of an object, or undefined to leave it as it is. */
export type Change = (current: StoredObject | undefined) => Value | undefined | Promise<Value | undefined>;

/** Options of an update. */
export type UpdateOptions = Omit<PutOptions, keyof Conditional> & CallOptions;

/** How long an update may take in milliseconds, if the caller does not say. */
const defaultTimeout = 30_000;

/** update implements {@link Resource.update}. */
export async function update(resource: Resource, key: string, change: Change, options: UpdateOptions): Promise<WriteResult | undefined> {
  const deadline = new Deadline(options.timeout ?? defaultTimeout);
  for (const backoff = new Backoff(5, 1000); ; ) {
    const current = await find(resource, key, { ...options, timeout: deadline.left });
    const changed = Promise.resolve(change(current));
    if (!(await within(changed, deadline.left))) throw deadlineError();
    const value = await changed;
    if (value === undefined) return undefined;
    try {
      return await resource.put(key, value, {
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
      await pause(delay, options.signal);
    }
  }
}

/** given returns the options that are not undefined. */
function given(options: UpdateOptions): UpdateOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

async function find(resource: Resource, key: string, options: CallOptions): Promise<StoredObject | undefined> {
  try {
    return (await resource.get(key, options)).object;
  } catch (error) {
    if (error instanceof FanoutError && error.reason === 'KEY_NOT_FOUND') return undefined;
    throw error;
  }
}
