// Who wrote what, when and why.

import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate, type Timestamp } from '@bufbuild/protobuf/wkt';
import {
  HistoryEntry_Kind,
  type HistoryEntry as HistoryEntryMessage,
  type HistoryRequestSchema,
  type LastChange as LastChangeMessage,
} from './gen/fanout/v1/fanout_pb.js';
import { printable } from './json.js';
import { objectOf, type StoredObject } from './object.js';
import { scopeOf, type CallOptions, type Selection } from './options.js';

/** The write that stored an object: who made it, when and why. */
export interface LastChange {
  /** The name of the writer. Empty if it was anonymous. */
  readonly author: string;
  /** The time of the write, by the clock of the server. */
  readonly time: Date;
  /** Why, in the words of the writer. */
  readonly message: string;
}

/**
 * What an entry of a history means. Only the first two are writes through fanoutd.
 *
 * - `put`, `delete`: a write.
 * - `expired`: the time to live of the object has ended.
 * - `gap`: another program wrote the key in etcd.
 * - `earlier`: the object is older than the history of its key.
 * - `unknown`: a newer server sends a kind that this client does not know.
 */
export type HistoryKind = 'put' | 'delete' | 'expired' | 'gap' | 'earlier' | 'unknown';

/** One entry of a history. As JSON, it has revisions as strings. */
export interface HistoryEntry {
  readonly kind: HistoryKind;
  readonly key: string;
  /** The revision of the write. Of a gap and of an earlier object: its `modRevision`, or 0n if it is not known. 0n for an expiry. */
  readonly revision: bigint;
  /** The name of the writer. Empty if it was anonymous, and if the entry is no write. */
  readonly author: string;
  /** The time of the write, by the clock of the server. Undefined if the entry is no write. */
  readonly time: Date | undefined;
  /** Why, in the words of the writer. */
  readonly message: string;
  /** The `modRevision` before the write. 0n if there was no object. */
  readonly replacedRevision: bigint;
  /** The number of keys that the transaction of the write has written. */
  readonly transactionWrites: number;
  /** The object has a time to live. */
  readonly hasTTL: boolean;
  /** With `values`: the object as it was written, if the history has it. Its `createRevision` and `version` are 0n. */
  readonly object: StoredObject | undefined;
}

/** Options of a history. */
export interface HistoryOptions extends CallOptions, Pick<Selection, 'prefix' | 'key'> {
  /** Begin with the newest write that has this revision or an earlier one. */
  readonly upTo?: bigint | undefined;
  /** Begin with the newest write of the resource at this time or before it. */
  readonly at?: Date | undefined;
  /** Return the objects as they were written. */
  readonly values?: boolean | undefined;
  /** How many writes one request fetches: at most 1000. 0 means the default: 100. */
  readonly pageSize?: number | undefined;
}

type HistoryRequest = Exclude<MessageInitShape<typeof HistoryRequestSchema>, { $typeName: string }>;

/** @internal historyRequestOf returns the request of the first page of a history. */
export function historyRequestOf(resource: string, options: HistoryOptions): HistoryRequest {
  const { upTo, at, values = false, pageSize = 0 } = options;
  if (upTo !== undefined && at !== undefined) throw new TypeError('upTo and at exclude each other');
  if (pageSize < 0) throw new RangeError(`pageSize is ${pageSize}, must not be negative`);
  return {
    resource,
    scope: scopeOf(options),
    values,
    pageSize,
    ...(upTo !== undefined && { begin: { case: 'revision', value: upTo } }),
    ...(at && { begin: { case: 'time', value: timestampFromDate(at) } }),
  };
}

const kinds: Partial<Record<HistoryEntry_Kind, HistoryKind>> = {
  [HistoryEntry_Kind.PUT]: 'put',
  [HistoryEntry_Kind.DELETE]: 'delete',
  [HistoryEntry_Kind.EXPIRED]: 'expired',
  [HistoryEntry_Kind.GAP]: 'gap',
  [HistoryEntry_Kind.EARLIER]: 'earlier',
};

function timeOf(time: Timestamp | undefined): Date | undefined {
  return time && timestampDate(time);
}

/** @internal entryOf returns the entry of a message. */
export function entryOf(m: HistoryEntryMessage): HistoryEntry {
  return printable({
    kind: kinds[m.kind] ?? 'unknown',
    key: m.key,
    revision: m.revision,
    author: m.author,
    time: timeOf(m.time),
    message: m.message,
    replacedRevision: m.replacedRevision,
    transactionWrites: m.transactionWrites,
    hasTTL: m.hasTtl,
    object: m.object && objectOf(m.object),
  });
}

/** @internal lastChangeOf returns the last change of a message. */
export function lastChangeOf(m: LastChangeMessage | undefined): LastChange | undefined {
  return m && { author: m.author, time: timeOf(m.time) ?? new Date(0), message: m.message };
}
