// Objects and positions.

import type { Object$ as ObjectMessage } from './gen/fanout/v1/object_pb.js';
import { Printable } from './json.js';

/** An object of a resource. As JSON, it has bytes as `data` in Base64 instead of `value`, and revisions as strings. */
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
 * epochs cannot be compared. As JSON, the revision is a string.
 */
export interface Position {
  readonly epoch: string;
  readonly revision: bigint;
}

/** A position after JSON.parse. */
export interface PositionJSON {
  readonly epoch: string;
  readonly revision: string;
}

/** The labels of all objects that have none. */
const noLabels: Readonly<Record<string, string>> = Object.freeze({});

/** labelsOf returns the labels of a message, whose maps are often empty. */
function labelsOf({ labels }: ObjectMessage): Readonly<Record<string, string>> {
  for (const _ in labels) return labels;
  return noLabels;
}

/** The content type of the last object. Objects share it, because most resources have one only. */
let lastContentType = '';

function contentTypeOf({ contentType }: ObjectMessage): string {
  if (contentType !== lastContentType) lastContentType = contentType;
  return lastContentType;
}

class ReadObject extends Printable implements StoredObject {
  // Only declared, so that the constructor does not write each field twice.
  declare readonly key: string;
  declare readonly value: string | Uint8Array | undefined;
  declare readonly contentType: string;
  declare readonly labels: Readonly<Record<string, string>>;
  declare readonly opaque: boolean;
  declare readonly createRevision: bigint;
  declare readonly modRevision: bigint;
  declare readonly version: bigint;
  declare readonly hasTTL: boolean;

  constructor(m: ObjectMessage) {
    super();
    const { value } = m.value;
    this.key = m.key;
    // A view of a message keeps the whole message in memory.
    this.value = value instanceof Uint8Array ? new Uint8Array(value) : value;
    this.contentType = contentTypeOf(m);
    this.labels = labelsOf(m);
    this.opaque = m.opaque;
    this.createRevision = m.createRevision;
    this.modRevision = m.modRevision;
    this.version = m.version;
    this.hasTTL = m.hasTtl;
  }

  override toJSON(): Record<string, unknown> {
    const { value, ...shown } = super.toJSON();
    return value instanceof Uint8Array ? { ...shown, data: Buffer.from(value).toString('base64') } : { ...shown, value };
  }
}

class ReadPosition extends Printable implements Position {
  constructor(
    readonly epoch: string,
    readonly revision: bigint,
  ) {
    super();
  }
}

/** @internal objectOf returns the object of a message. */
export function objectOf(m: ObjectMessage): StoredObject {
  return new ReadObject(m);
}

/** @internal positionOf returns the position of a message, or one that was JSON. */
export function positionOf(p: Position | PositionJSON | undefined): Position {
  return new ReadPosition(p?.epoch ?? '', BigInt(p?.revision ?? 0n));
}

/** @internal samePosition compares two positions. */
export function samePosition(a: Position | undefined, b: Position | undefined): boolean {
  return a?.epoch === b?.epoch && a?.revision === b?.revision;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** textOf returns the value of an object as text. It throws if the value is unknown. */
export function textOf({ key, value }: StoredObject): string {
  if (value === undefined) throw new Error(`the value of ${key} is unknown: it was omitted or could not be decrypted`);
  return typeof value === 'string' ? value : utf8.decode(value);
}

/** Decodes the objects of an informer. It throws if an object is invalid. It cannot wait. */
export type Decoder<T> = (object: StoredObject) => T;

/** Refuses decoders that return promises. */
export type NoPromise<T> = T extends PromiseLike<unknown> ? never : T;

/** jsonDecoder returns a decoder of JSON values. It checks the syntax only; pass a function that checks the content. */
export function jsonDecoder<T>(check: (value: unknown) => T = (value) => value as T): Decoder<T> {
  return (object) => check(JSON.parse(textOf(object)));
}
