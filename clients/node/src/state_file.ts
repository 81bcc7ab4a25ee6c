// A file with the last known good state.

import { createHash } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { create, equals, fromBinary } from '@bufbuild/protobuf';
import { sizeDelimitedEncode } from '@bufbuild/protobuf/wire';
import type { WatchStart } from './carrier.js';
import { WatchRequestSchema } from './gen/fanout/v1/fanout_pb.js';
import { ObjectSchema, PositionSchema, type Object$ as ObjectMessage } from './gen/fanout/v1/object_pb.js';
import { objectOf, positionOf, type Position, type StoredObject } from './object.js';

/** The first line of the file. The number is the version of the format, which is that of the Go client. */
const magic = Buffer.from('fanoutd last known good 1\n');
const sumLength = 32;

/** A state in a file. */
export interface SavedState {
  readonly position: Position;
  readonly objects: readonly StoredObject[];
}

/**
 * StateFile keeps the state of one watch in a file: the first line, the request with the position, the objects, and
 * the SHA-256 of all that. The length of each message precedes it.
 */
export class StateFile {
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #watch: WatchStart;

  constructor(path: string, maxBytes: number, watch: WatchStart) {
    this.#path = path;
    this.#maxBytes = maxBytes;
    this.#watch = watch;
  }

  /** read returns the saved state, or undefined if there is no file. It throws if the file cannot be used. */
  async read(): Promise<SavedState | undefined> {
    try {
      if ((await stat(this.#path)).size > this.#maxBytes) throw new Error(`it is larger than ${this.#maxBytes} bytes`);
      return this.#decode(await readFile(this.#path));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw new Error(`cannot use the saved state in ${this.#path}: ${(error as Error).message}`, { cause: error });
    }
  }

  #decode(content: Buffer): SavedState {
    if (!content.subarray(0, magic.length).equals(magic)) throw new Error('the file is of another kind');
    const end = content.length - sumLength;
    if (end < magic.length || !sum([content.subarray(0, end)]).equals(content.subarray(end))) throw new Error('the file is damaged');
    const messages = split(content.subarray(magic.length, end));
    const first = messages.next();
    if (first.done) throw new Error('the file is damaged');
    const watch = fromBinary(WatchRequestSchema, first.value);
    const position = positionOf(watch.begin.case === 'after' ? watch.begin.value : undefined);
    watch.begin = { case: undefined };
    if (!equals(WatchRequestSchema, watch, create(WatchRequestSchema, this.#watch))) {
      throw new Error('the file has the state of another watch');
    }
    return { position, objects: Array.from(messages, (bytes) => objectOf(fromBinary(ObjectSchema, bytes))) };
  }

  /** write replaces the file as a whole. The objects are read before it returns. */
  async write(position: Position, objects: Iterable<StoredObject>): Promise<void> {
    const watch = create(WatchRequestSchema, this.#watch);
    watch.begin = { case: 'after', value: create(PositionSchema, position) };
    const parts: Uint8Array[] = [magic, sizeDelimitedEncode(WatchRequestSchema, watch)];
    let size = sumLength + magic.length + parts[1]!.length;
    for (const object of objects) {
      const part = sizeDelimitedEncode(ObjectSchema, messageOf(object));
      parts.push(part);
      size += part.length;
      if (size > this.#maxBytes) throw new Error(`cannot save the state in ${this.#path}: it is larger than ${this.#maxBytes} bytes`);
    }
    parts.push(sum(parts));
    const temporary = `${this.#path}.new`; // one that was left behind is replaced
    try {
      // The file is as secret as the objects in it.
      const file = await open(temporary, 'w', 0o600);
      try {
        await file.writeFile(Buffer.concat(parts));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.#path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw new Error(`cannot save the state in ${this.#path}: ${(error as Error).message}`, { cause: error });
    }
  }
}

function sum(parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** split returns the messages of a file. */
function* split(content: Buffer): Generator<Uint8Array, void, void> {
  for (let at = 0; at < content.length; ) {
    let length = 0;
    let scale = 1;
    for (;;) {
      const byte = content[at++];
      if (byte === undefined) throw new Error('the file is damaged');
      length += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 128;
    }
    if (at + length > content.length) throw new Error('the file is damaged');
    yield content.subarray(at, at + length);
    at += length;
  }
}

function messageOf(o: StoredObject): ObjectMessage {
  const { value, labels, hasTTL: hasTtl, ...rest } = o;
  let content: ObjectMessage['value'] = { case: undefined };
  if (typeof value === 'string') content = { case: 'text', value };
  else if (value !== undefined) content = { case: 'data', value: new Uint8Array(value) };
  return create(ObjectSchema, { ...rest, value: content, labels: { ...labels }, hasTtl });
}

