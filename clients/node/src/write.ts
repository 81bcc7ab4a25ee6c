// What a write consists of.

import { types } from 'node:util';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { StoredObject } from './object.js';
import type { DeleteOperationSchema, OperationSchema, PutOperationSchema } from './gen/fanout/v1/store_pb.js';

/** A value: text, such as JSON, or bytes. */
export type Value = string | Uint8Array;

/** A precondition. */
export interface Conditional {
  /** Write only if the object has this `modRevision`; 0n means that there must be none. */
  readonly ifModRevision?: bigint | undefined;
}

/** Options of every request that writes. */
export interface WriteOptions {
  /** Why the caller writes. The history of the resource keeps it, with the name of the caller and the time. At most 1024 bytes. */
  readonly message?: string | undefined;
  /**
   * Write although the validation rules of the resource refuse it. The caller needs the right `skip-validation` as well,
   * and the audit log notes it.
   */
  readonly skipValidation?: boolean | undefined;
}

/** Options of a put. */
export interface PutOptions extends Conditional {
  /** The media type. Default: that of the resource. */
  readonly contentType?: string | undefined;
  /** Labels, which only the codec `object` supports. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Remove the object after so many milliseconds. Whole seconds. */
  readonly ttl?: number | undefined;
  /** Keep the time to live of the existing object. */
  readonly keepTTL?: boolean | undefined;
  /** Replace the object even if the server cannot decode or decrypt its value. Otherwise the write fails with `OPAQUE_VALUE`. */
  readonly overwriteOpaque?: boolean | undefined;
}

/** Options of a delete. */
export interface DeleteOptions extends Conditional {
  /** Return the object that was removed. */
  readonly returnDeleted?: boolean | undefined;
}

/** Stores an object in a transaction. */
export interface PutOperation extends PutOptions {
  readonly key: string;
  readonly value: Value;
}

/** Removes an object in a transaction. */
export interface DeleteOperation extends DeleteOptions {
  readonly key: string;
}

/** One operation of a transaction. */
export type Operation =
  | { readonly put: PutOperation }
  | { readonly delete: DeleteOperation }
  /** Writes nothing, and requires that the object has this `modRevision`. */
  | { readonly check: { readonly key: string; readonly modRevision: bigint } };

/** The result of a write. */
export interface WriteResult {
  /** The revision of the write. A read with this `minRevision` sees it. */
  readonly revision: bigint;
}

/** The result of one operation. */
export interface OperationResult {
  /** Whether a delete has removed an object. */
  readonly deleted: boolean;
  /** The object that was removed, with `returnDeleted`. */
  readonly object: StoredObject | undefined;
}

/** checkValue refuses what is not a value, also in programs without types: protobuf would store it as an empty one. */
function checkValue(key: string, value: unknown): void {
  if (typeof value === 'string' || types.isUint8Array(value)) return;
  const kind = value === null ? 'null' : typeof value === 'object' ? 'an object of another kind' : `of type ${typeof value}`;
  throw new TypeError(`the value of ${key} must be a string or a Uint8Array, but it is ${kind}`);
}

/** @internal writeOptionsOf returns the fields of a request that WriteOptions set. */
export function writeOptionsOf({ message = '', skipValidation = false }: WriteOptions): { message: string; skipValidation: boolean } {
  return { message, skipValidation };
}

type PutMessage = MessageInitShape<typeof PutOperationSchema>;

/** @internal putOf returns the message of a put. */
export function putOf({ key, value, contentType = '', labels = {}, ifModRevision, ttl, keepTTL = false, overwriteOpaque = false }: PutOperation): PutMessage {
  checkValue(key, value);
  if (ttl !== undefined && ttl % 1000 !== 0) throw new RangeError('ttl must be whole seconds');
  return {
    key,
    value: typeof value === 'string' ? { case: 'text', value } : { case: 'data', value },
    contentType,
    labels: { ...labels },
    keepTtl: keepTTL,
    overwriteOpaque,
    ...(ifModRevision !== undefined && { ifModRevision }),
    ...(ttl !== undefined && { ttl: durationFromMs(ttl) }),
  };
}

/** @internal deleteOf returns the message of a delete. */
export function deleteOf({ key, ifModRevision, returnDeleted = false }: DeleteOperation): MessageInitShape<typeof DeleteOperationSchema> {
  return { key, returnDeleted, ...(ifModRevision !== undefined && { ifModRevision }) };
}

/** @internal operationOf returns the message of an operation. */
export function operationOf(operation: Operation): MessageInitShape<typeof OperationSchema> {
  if ('put' in operation) return { operation: { case: 'put', value: putOf(operation.put) } };
  if ('delete' in operation) return { operation: { case: 'delete', value: deleteOf(operation.delete) } };
  if ('check' in operation) return { operation: { case: 'check', value: operation.check } };
  throw new TypeError('an operation must have put, delete or check');
}
