// A file with the last known good state.

import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { create, equals, fromBinary } from '@bufbuild/protobuf';
import { sizeDelimitedEncode } from '@bufbuild/protobuf/wire';
import type { WatchStart } from './carrier.js';
import { describe } from './fence.js';
import { WatchRequestSchema } from './gen/fanout/v1/fanout_pb.js';
import { ObjectSchema, PositionSchema, type Object$ as ObjectMessage } from './gen/fanout/v1/object_pb.js';
import { objectOf, positionOf, type Position, type StoredObject } from './object.js';
import { readRegular, replaceRegular } from './regular_file.js';

/** The first line of the file. The number is the version of the format, which is that of the Go client. */
const magic = Buffer.from('fanoutd last known good 1\n');
const sumLength = 32;

/** After so many objects or bytes, other work of the process has a turn. */
const turnObjects = 500;
const turnBytes = 256 << 10;

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
      const content = await readRegular(this.#path, this.#maxBytes);
      return content && (await this.#decode(content));
    } catch (error) {
      throw new Error(`cannot use the saved state in ${this.#path}: ${describe(error)}`, { cause: error });
    }
  }

  async #decode(content: Buffer): Promise<SavedState> {
    if (!content.subarray(0, magic.length).equals(magic)) throw new Error('the file is of another kind');
    const end = content.length - sumLength;
    if (end < magic.length || !(await sumOf(content.subarray(0, end))).equals(content.subarray(end))) {
      throw new Error('the file is damaged');
    }
    const messages = split(content.subarray(magic.length, end));
    const first = messages.next();
    if (first.done) throw new Error('the file is damaged');
    const watch = fromBinary(WatchRequestSchema, first.value);
    const position = positionOf(watch.begin.case === 'after' ? watch.begin.value : undefined);
    watch.begin = { case: undefined };
    if (!equals(WatchRequestSchema, watch, create(WatchRequestSchema, this.#watch))) {
      throw new Error('the file has the state of another watch');
    }
    const objects: StoredObject[] = [];
    const turn = new Turn();
    for (const bytes of messages) {
      objects.push(objectOf(fromBinary(ObjectSchema, bytes)));
      if (turn.isOver(bytes.length)) await setImmediate();
    }
    return { position, objects };
  }

  /** write replaces the file as a whole. The objects are those at the time of the call. */
  async write(position: Position, objects: Iterable<StoredObject>): Promise<void> {
    try {
      await replaceRegular(this.#path, await this.#encode(position, [...objects]));
    } catch (error) {
      throw new Error(`cannot save the state in ${this.#path}: ${describe(error)}`, { cause: error });
    }
  }

  /** #encode returns the content in parts. */
  async #encode(position: Position, objects: readonly StoredObject[]): Promise<Buffer[]> {
    const watch = create(WatchRequestSchema, this.#watch);
    watch.begin = { case: 'after', value: create(PositionSchema, position) };
    const hash = createHash('sha256');
    const parts: Buffer[] = [];
    let messages: Uint8Array[] = [magic, sizeDelimitedEncode(WatchRequestSchema, watch)];
    let size = sumLength + magic.length + messages[1]!.length;
    const endPart = () => {
      const part = Buffer.concat(messages);
      hash.update(part);
      parts.push(part);
      messages = [];
    };
    const turn = new Turn();
    for (const object of objects) {
      const message = sizeDelimitedEncode(ObjectSchema, messageOf(object));
      size += message.length;
      if (size > this.#maxBytes) throw new Error(`it is larger than ${this.#maxBytes} bytes`);
      messages.push(message);
      if (!turn.isOver(message.length)) continue;
      endPart();
      await setImmediate();
    }
    endPart();
    return [...parts, hash.digest()];
  }
}

/** A turn of the event loop. Long work that does not end it blocks the process. */
class Turn {
  #objects = 0;
  #bytes = 0;

  /** isOver counts an object, and reports whether the turn is over. The next call is in the next turn. */
  isOver(bytes: number): boolean {
    this.#objects++;
    this.#bytes += bytes;
    if (this.#objects < turnObjects && this.#bytes < turnBytes) return false;
    this.#objects = 0;
    this.#bytes = 0;
    return true;
  }
}

async function sumOf(content: Buffer): Promise<Buffer> {
  const hash = createHash('sha256');
  for (let at = 0; at < content.length; at += turnBytes) {
    hash.update(content.subarray(at, at + turnBytes));
    await setImmediate();
  }
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
  const { key, value, contentType, labels, opaque, createRevision, modRevision, version, hasTTL: hasTtl } = o;
  let content: ObjectMessage['value'] = { case: undefined };
  if (typeof value === 'string') content = { case: 'text', value };
  else if (value !== undefined) content = { case: 'data', value: new Uint8Array(value) };
  const rest = { contentType, opaque, createRevision, modRevision, version, hasTtl };
  return create(ObjectSchema, { key, ...rest, value: content, labels: { ...labels } });
}
