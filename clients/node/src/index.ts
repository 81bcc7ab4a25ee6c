/**
 * The Node.js client of fanoutd. It reads, writes and watches objects, and keeps local copies of them up to date.
 *
 * @packageDocumentation
 */

export { Client } from './client.js';
export type { ClientOptions, SubscriberOptions, TLSOptions } from './client_options.js';
export { clientClosed, FanoutError, type FanoutErrorDetails, type Reason, type Violation } from './errors.js';
export type { Handler, HandlerContext, Registration } from './handler.js';
export type { HistoryEntry, HistoryKind, HistoryOptions, LastChange } from './history.js';
export type { Informer, InformerEvents, InformerOptions } from './informer.js';
export type { Item } from './item.js';
export type { Logger } from './logger.js';
export { jsonDecoder, textOf, type Decoder, type NoPromise, type Position, type PositionJSON, type StoredObject } from './object.js';
export type {
  HandlerFailed,
  InformerState,
  Observer,
  ObserverEvents,
  RequestEnd,
  WatchEnded,
  WatchInterrupted,
  WatchOpened,
  WatchReceived,
} from './observer.js';
export type {
  CallOptions,
  CloseOptions,
  Consistency,
  FollowOptions,
  GetOptions,
  ListOptions,
  RequestMetadata,
  RequestOptions,
  Selection,
  WaitOptions,
  WatchOptions,
} from './options.js';
export type { DeleteResult, GetResult, Page, Resource, TransactResult } from './resource.js';
export type { Change, UpdateOptions } from './update.js';
export type { Update, WatchEvent } from './assembler.js';
export { NotReachedError, RefusedError, WaitStatus, type PendingWatch, type WaitServer } from './wait_status.js';
export type { Watch } from './watch.js';
export type {
  Conditional,
  DeleteOperation,
  DeleteOptions,
  Operation,
  OperationResult,
  PutOperation,
  PutOptions,
  Value,
  WriteOptions,
  WriteResult,
} from './write.js';
export { status as codes } from '@grpc/grpc-js';
