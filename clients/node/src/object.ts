// Objects and positions.

import type { Object$ as ObjectMessage } from './gen/fanout/v1/object_pb.js';

/** An object of a resource. */
export interface StoredObject {
  /** The path of the object inside its resource, such as `team-a/limits`. */
  readonly key: string;
  /**
   * The value: a string if the server knows that it is text, else bytes. Undefined if it is unknown, because a
   * watch omits values, the server cannot decrypt it, or a deletion names only the key. That is not an empty value.
   */
  readonly value: string | Uint8Array | undefined;
  /** The media type of the value. */
  readonly contentType: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The server cannot decode or decrypt the value. */
  readonly opaque: boolean;
  /** The revision at which the key was created. */
  readonly createRevision: bigint;
  /** The revision of the last write. */
  readonly modRevision: bigint;
  /** The number of writes since the key was created. */
  readonly version: bigint;
  /** The object has a time to live. */
  readonly hasTTL: boolean;
}

/**
 * A point in the history of a resource. It is valid on every server over the same etcd. Revisions of different
 * epochs cannot be compared.
 */
export interface Position {
  readonly epoch: string;
  readonly revision: bigint;
}

/** @internal objectOf returns the object of a message. */
export function objectOf(m: ObjectMessage): StoredObject {
  let value: string | Uint8Array | undefined = m.value.value;
  // A view of a message keeps the whole message in memory.
  if (value instanceof Uint8Array) value = new Uint8Array(value);
  const { key, contentType, labels, opaque, createRevision, modRevision, version, hasTtl: hasTTL } = m;
  return { key, value, contentType, labels, opaque, createRevision, modRevision, version, hasTTL };
}

/** @internal positionOf returns the position of a message. */
export function positionOf(p: Position | undefined): Position {
  return { epoch: p?.epoch ?? '', revision: p?.revision ?? 0n };
}

/** @internal samePosition compares two positions. */
export function samePosition(a: Position | undefined, b: Position | undefined): boolean {
  return a?.epoch === b?.epoch && a?.revision === b?.revision;
}

/** textOf returns the value of an object as text. It throws if the value is unknown. */
export function textOf({ key, value }: StoredObject): string {
  if (value === undefined) throw new Error(`the value of ${key} is unknown: it was omitted or could not be decrypted`);
  return typeof value === 'string' ? value : new TextDecoder('utf-8', { fatal: true }).decode(value);
}

/** Decodes the objects of an informer. It throws if an object is invalid. */
export type Decoder<T> = (object: StoredObject) => T;

/** jsonDecoder returns a decoder of JSON values. It checks the syntax only; pass a function that checks the content. */
export function jsonDecoder<T>(check: (value: unknown) => T = (value) => value as T): Decoder<T> {
  return (object) => check(JSON.parse(textOf(object)));
}
