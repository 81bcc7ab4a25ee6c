// The operations of a resource.

import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import type { ConnectionPool } from './connection_pool.js';
import { FanoutError } from './errors.js';
import type { ListRequestSchema } from './gen/fanout/v1/fanout_pb.js';
import { entryOf, historyRequestOf, lastChangeOf, type HistoryEntry, type HistoryOptions, type LastChange } from './history.js';
import { Informer, type InformerOptions } from './informer.js';
import { printable } from './json.js';
import { methods, type Method } from './methods.js';
import { objectOf, positionOf, type Decoder, type NoPromise, type Position, type StoredObject } from './object.js';
import {
  consistencyOf,
  scopeOf,
  selectorsOf,
  type CallOptions,
  type GetOptions,
  type ListOptions,
  type WaitOptions,
  type WatchOptions,
} from './options.js';
import { readAttempts, Request } from './request.js';
import { update, type Change, type UpdateOptions } from './update.js';
import type { WaitStatus } from './wait_status.js';
import { Watch } from './watch.js';
import {
  deleteOf,
  operationOf,
  putOf,
  writeOptionsOf,
  type DeleteOptions,
  type Operation,
  type OperationResult,
  type PutOptions,
  type Value,
  type WriteOptions,
  type WriteResult,
} from './write.js';

/** An object that was read. */
export interface GetResult {
  readonly object: StoredObject;
  readonly position: Position;
  /** Milliseconds until the object is removed. Undefined if it has no time to live, or if it is unknown. */
  readonly ttl: number | undefined;
  /** With `lastChange`: the write that stored the object. Undefined if the history does not have it. */
  readonly lastChange: LastChange | undefined;
}

/** A page of a list. */
export interface Page {
  readonly objects: readonly StoredObject[];
  /** The position of the list, the same on every page. A watch after it continues where the list ends. */
  readonly position: Position;
  /** The number of objects on later pages. Undefined if it is unknown. */
  readonly remaining: bigint | undefined;
}

/** The result of a delete. */
export interface DeleteResult extends WriteResult {
  /** Whether there was an object. */
  readonly deleted: boolean;
  /** With `returnDeleted`: the object that was removed. */
  readonly object: StoredObject | undefined;
}

/** The result of a transaction. */
export interface TransactResult extends WriteResult {
  /** One result for each operation, in their order. */
  readonly results: readonly OperationResult[];
}

type ListRequest = Exclude<MessageInitShape<typeof ListRequestSchema>, { $typeName: string }>;

/** A resource: a named collection of objects. */
export class Resource {
  readonly #pool: ConnectionPool;
  /** The name of the resource. */
  readonly name: string;

  /** @internal Use {@link Client.resource}. */
  constructor(pool: ConnectionPool, name: string) {
    this.#pool = pool;
    this.name = name;
  }

  /** get reads an object. If there is none, it throws an error with the reason `KEY_NOT_FOUND`. */
  async get(key: string, options: GetOptions = {}): Promise<GetResult> {
    const consistency = consistencyOf(options.consistency);
    const { object, position, ttl, lastChange } = await this.#read(
      methods.get,
      { resource: this.name, key, lastChange: options.lastChange ?? false, ...(consistency && { consistency }) },
      options,
    );
    if (!object) throw new FanoutError({ code: status.INTERNAL, message: 'the response has no object' });
    const left = ttl && Number(ttl.seconds) * 1000 + ttl.nanos / 1e6;
    return { object: objectOf(object), position: positionOf(position), ttl: left, lastChange: lastChangeOf(lastChange) };
  }

  /** pages reads a list page by page. All pages show the same revision. */
  async *pages(options: ListOptions = {}): AsyncGenerator<Page, void, void> {
    const request = this.#listRequest(options);
    let pageToken = '';
    do {
      // All pages have the revision of the first one.
      const consistency = pageToken === '' ? request.consistency : undefined;
      const response = await this.#read(methods.list, { ...request, consistency, pageToken }, options);
      pageToken = response.nextPageToken;
      yield printable({
        objects: response.objects.map(objectOf),
        position: positionOf(response.position),
        remaining: response.remainingCount,
      });
    } while (pageToken !== '');
  }

  /** list reads all objects of a selection, in the order of their keys. */
  async list(options: ListOptions = {}): Promise<{ objects: StoredObject[]; position: Position }> {
    const objects: StoredObject[] = [];
    let position: Position = { epoch: '', revision: 0n };
    for await (const page of this.pages(options)) {
      objects.push(...page.objects);
      position = page.position;
    }
    return { objects, position };
  }

  /** count counts the objects of a selection. */
  async count(options: Omit<ListOptions, 'pageSize'> = {}): Promise<{ count: bigint; position: Position }> {
    const request = { ...this.#listRequest(options), countOnly: true };
    const { remainingCount, position } = await this.#read(methods.list, request, options);
    return printable({ count: remainingCount ?? 0n, position: positionOf(position) });
  }

  /** put stores an object. A write is not sent again after a failure, because it may have been applied. */
  async put(key: string, value: Value, options: PutOptions & WriteOptions & CallOptions = {}): Promise<WriteResult> {
    const request = { resource: this.name, put: putOf({ key, value, ...options }), ...writeOptionsOf(options) };
    const { revision } = await this.#write(methods.put, request, options);
    return printable({ revision });
  }

  /**
   * validate asks the server whether its validation rules allow a put, and writes nothing. A refusal has the reason
   * `VALUE_REFUSED`, and its violations are the faults. A revision is not compared, but `ifModRevision: 0n` means that
   * there is no object.
   */
  async validate(key: string, value: Value, options: PutOptions & CallOptions = {}): Promise<void> {
    await this.#write(methods.put, { resource: this.name, put: putOf({ key, value, ...options }), validateOnly: true }, options);
  }

  /** delete removes an object. To remove a missing object is not an error. */
  async delete(key: string, options: DeleteOptions & WriteOptions & CallOptions = {}): Promise<DeleteResult> {
    const request = { resource: this.name, delete: deleteOf({ key, ...options }), ...writeOptionsOf(options) };
    const { revision, deleted, object } = await this.#write(methods.delete, request, options);
    return printable({ revision, deleted, object: object && objectOf(object) });
  }

  /** transact applies several writes at one revision, or none of them. Watches see them together. */
  async transact(operations: readonly Operation[], options: WriteOptions & CallOptions = {}): Promise<TransactResult> {
    const request = { resource: this.name, operations: operations.map(operationOf), ...writeOptionsOf(options) };
    const { revision, results } = await this.#write(methods.transact, request, options);
    return printable({ revision, results: results.map(({ deleted, object }) => ({ deleted, object: object && objectOf(object) })) });
  }

  /**
   * update reads an object, changes it, and writes it if it has not changed meanwhile. Otherwise it begins again after a
   * short delay, so `change` may be called several times. If `change` returns undefined, nothing is written. Labels,
   * media type and time to live stay, unless the options say otherwise.
   *
   * @param change Gets the object, or undefined if there is none.
   * @param options `timeout` is for all attempts together.
   * @returns The revision of the write, or undefined if nothing was written.
   */
  update(key: string, change: Change, options: UpdateOptions = {}): Promise<WriteResult | undefined> {
    return update(this, this.#pool.closing, key, change, options);
  }

  /**
   * history reads the writes to an object, to the objects below a path, or to all of them, newest first. It fetches them in
   * pages, with the timeout for each, during the loop. It throws an error with the reason `NO_HISTORY` if the resource has
   * none. The caller needs the right `history`.
   */
  async *history(options: HistoryOptions = {}): AsyncGenerator<HistoryEntry, void, void> {
    const request = historyRequestOf(this.name, options);
    let pageToken = '';
    do {
      const { entries, nextPageToken } = await this.#read(methods.history, { ...request, pageToken }, options);
      for (const entry of entries) yield entryOf(entry);
      pageToken = nextPageToken;
    } while (pageToken !== '');
  }

  /**
   * revisionAt returns the revision that a time means: that of the last write of the resource at the time or before it. It
   * is the same for every selection, and 0n if the history has no such write. The caller needs the right `history` to the
   * selection, or to the whole resource.
   */
  async revisionAt(time: Date, options: CallOptions & Pick<HistoryOptions, 'prefix' | 'key'> = {}): Promise<bigint> {
    const request = historyRequestOf(this.name, { ...options, at: time, pageSize: 1 });
    return (await this.#read(methods.history, request, options)).revision;
  }

  /**
   * watch follows a selection. It reconnects and resumes for as long as the loop runs. The first update has `replace`
   * set and contains the whole state, unless the watch begins elsewhere.
   *
   * The loop ends with an error if no retry can help, and with the reason of the signal if that is aborted.
   */
  watch(options: WatchOptions = {}): Watch {
    return new Watch(this.#pool, this.name, options);
  }

  /** informer returns an informer, which keeps a copy of a selection. Call its method `start`. */
  informer(options?: InformerOptions<StoredObject> & { readonly decode?: undefined }): Informer<StoredObject>;
  informer<T>(options: InformerOptions<T> & { readonly decode: Decoder<NoPromise<T>> }): Informer<T>;
  informer<T>(options: InformerOptions<T> = {}): Informer<T> {
    return new Informer<T>(this.#pool, this.name, options);
  }

  /**
   * wait waits until a share of the affected watches, over all servers, has applied a revision, such as the result of
   * `put`. It asks each server of the client, and each address of a DNS name: a server knows only its own watches. It needs
   * the right `admin` to the resource.
   *
   * It throws a {@link RefusedError} at once if more watches than `tolerate` have reported an error for the revision, a
   * {@link NotReachedError} after `timeout`, and a {@link FanoutError} if a server refuses the request.
   */
  async wait(revision: bigint, options: WaitOptions = {}): Promise<WaitStatus> {
    const { wait } = await import('./wait.js'); // most programs do not wait
    return wait(this.#pool, this.name, revision, options);
  }

  #listRequest(options: ListOptions): ListRequest {
    const { consistency, startKey = '', pageSize = 0 } = options;
    return { resource: this.name, scope: scopeOf(options), ...selectorsOf(options), startKey, pageSize, consistency: consistencyOf(consistency) };
  }

  #read<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    return new Request(this.#pool, method, request, options).send(readAttempts);
  }

  #write<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    return new Request(this.#pool, method, request, options).send(1);
  }
}
