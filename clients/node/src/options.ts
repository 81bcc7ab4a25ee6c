// Options of requests.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ReadConsistencySchema, ScopeSchema } from './gen/fanout/v1/object_pb.js';
import type { Position, PositionJSON } from './object.js';
import type { WaitStatus } from './wait_status.js';

/** Metadata of gRPC: entries of a request beside its message. The values of names that end with `-bin` are bytes. */
export type RequestMetadata = Readonly<Record<string, string | Uint8Array>>;

/** Options of every request. */
export interface RequestOptions {
  /** Ends the request when it is aborted. The request then throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of a request with one response. */
export interface CallOptions extends RequestOptions {
  /**
   * Milliseconds after which the request fails with DEADLINE_EXCEEDED, with all its attempts and the pauses between them.
   * For a list: for each page. Default: 30 s.
   */
  readonly timeout?: number | undefined;
  /** Metadata of gRPC that is sent with the request. */
  readonly metadata?: RequestMetadata | undefined;
  /** Return values of the codec `protobuf` as JSON, as far as JSON can hold them completely. */
  readonly jsonValues?: boolean | undefined;
}

/** Options of the end of a client or an informer. */
export interface CloseOptions {
  /** Milliseconds after which `close` returns although a handler still runs. Default: 10 s. */
  readonly timeout?: number | undefined;
}

/**
 * How fresh a response must be. By default, it includes every write that was acknowledged before the request.
 *
 * - `'any'`: the state that the server has, without asking etcd.
 * - `minRevision`: this revision or a later one.
 * - `exactRevision`: exactly this revision.
 */
export type Consistency = 'linearizable' | 'any' | { readonly minRevision: bigint } | { readonly exactRevision: bigint };

/** Selects objects of a resource. */
export interface Selection {
  /** Only objects below this path. */
  readonly prefix?: string | undefined;
  /** Only the object with this key. */
  readonly key?: string | undefined;
  /** Only objects whose labels match, in the syntax of Kubernetes. */
  readonly labelSelector?: string | undefined;
  /** Only objects whose fields match, such as `name=limits`. */
  readonly fieldSelector?: string | undefined;
}

/** Options of a get. */
export interface GetOptions extends CallOptions {
  readonly consistency?: Consistency | undefined;
  /** Return who wrote the object last, when and why. The caller needs the right `history` to it as well. */
  readonly lastChange?: boolean | undefined;
}

/** Options of a list. */
export interface ListOptions extends CallOptions, Selection {
  readonly consistency?: Consistency | undefined;
  /** Only objects with this key or a later one. */
  readonly startKey?: string | undefined;
  /** The largest number of objects of a page. Default: as many as fit into a message. */
  readonly pageSize?: number | undefined;
}

/** Options of watches and informers. */
export interface FollowOptions extends Selection {
  /** How fresh the state at the beginning must be. */
  readonly consistency?: Consistency | undefined;
  /** Merge the events of an object that wait, and skip those that are outdated. Default: every event. */
  readonly latest?: boolean | undefined;
  /** Leave out the values of objects. */
  readonly omitValues?: boolean | undefined;
  /** Values of the codec `protobuf` come as JSON, as far as JSON can hold them completely. */
  readonly jsonValues?: boolean | undefined;
  /** Metadata of gRPC that is sent with the watch. It may give other rights, so the watch shares no stream. */
  readonly metadata?: RequestMetadata | undefined;
  /** Milliseconds to wait after a message; what happens meanwhile is sent together. Default: no delay. */
  readonly maxBatchDelay?: number | undefined;
  /**
   * The interval in milliseconds of bookmarks while nothing happens: 100 to 3,600,000. Three intervals of silence mean
   * that the server is dead. Default: 10 s.
   */
  readonly bookmarkInterval?: number | undefined;
}

/** Options of a watch. */
export interface WatchOptions extends FollowOptions, RequestOptions {
  /** Begin after this position, which may have been JSON. Default: with the whole state. */
  readonly after?: Position | PositionJSON | undefined;
  /** Only changes from now on. */
  readonly fromNow?: boolean | undefined;
  /** Add the object before the change to events. */
  readonly previousObject?: boolean | undefined;
  /** End with an error if events are lost, instead of skipping them. */
  readonly everyEvent?: boolean | undefined;
  /**
   * Report to the server what the caller has applied. Without it, operators who wait for a change do not wait for this
   * watch. Default: true.
   */
  readonly reports?: boolean | undefined;
  /** Called when the stream was interrupted. The watch goes on. */
  readonly onInterruption?: ((error: Error) => void) | undefined;
}

/** Options of {@link Resource.wait}. */
export interface WaitOptions extends RequestOptions {
  /** Only watches whose own scope overlaps the objects below this path. */
  readonly prefix?: string | undefined;
  /** Only watches whose own scope has this key. */
  readonly key?: string | undefined;
  /** Only watches whose programs have these labels, such as `app=cart`. Default: all. */
  readonly subscribers?: string | undefined;
  /** Only watches of the program with this name. Default: all. */
  readonly instance?: string | undefined;
  /** Also count watches that do not report, which never apply a revision. Default: they are only listed. */
  readonly requireAll?: boolean | undefined;
  /** The share of the watches that must have applied the revision: more than 0 and at most 1, the default. */
  readonly quorum?: number | undefined;
  /** How many watches may fail. They do not count for the quorum. Default: none. */
  readonly tolerate?: number | undefined;
  /**
   * The least number of affected watches. Set it where it is known: otherwise a subscriber that is not connected is not
   * missed. Default: 1, so that a mistyped key is no success.
   */
  readonly minWatches?: number | undefined;
  /** Succeed although some servers have never answered. */
  readonly allowMissingServers?: boolean | undefined;
  /**
   * The milliseconds for which a watch that has ended still counts, because its client may be on its way to another
   * server. Default: 35 s.
   */
  readonly settle?: number | undefined;
  /** Milliseconds after which the wait fails with a {@link NotReachedError}. Default: no limit. */
  readonly timeout?: number | undefined;
  /** Called with each change of the status, and once a second. The wait goes on when the promise has resolved. */
  readonly progress?: ((status: WaitStatus) => unknown) | undefined;
}

/** @internal scopeOf returns the scope of a selection. */
export function scopeOf({ prefix, key }: Pick<Selection, 'prefix' | 'key'>): MessageInitShape<typeof ScopeSchema> {
  if (prefix !== undefined && key !== undefined) throw new TypeError('prefix and key exclude each other');
  if (key !== undefined) return { scope: { case: 'key', value: key } };
  if (prefix !== undefined && prefix !== '') return { scope: { case: 'prefix', value: prefix } };
  return {};
}

/** @internal consistencyOf returns the message of a consistency. */
export function consistencyOf(c: Consistency | undefined): MessageInitShape<typeof ReadConsistencySchema> | undefined {
  if (c === undefined || c === 'linearizable') return undefined;
  if (c === 'any') return { level: { case: 'any', value: {} } };
  if ('minRevision' in c) return { level: { case: 'minRevision', value: c.minRevision } };
  return { level: { case: 'exactRevision', value: c.exactRevision } };
}

/** @internal selectorsOf returns the selectors of a selection. */
export function selectorsOf({ labelSelector = '', fieldSelector = '' }: Selection): { labelSelector: string; fieldSelector: string } {
  return { labelSelector, fieldSelector };
}
