// What a subscriber knows, and where in the history that is.

import { isDeepStrictEqual } from 'node:util';

// Catch-ups during which there is no position that what has arrived would belong to.
const betweenPositions = ['CATCH_UP_RESET', 'CATCH_UP_DELTA'];

// State is the objects of a watch by key, as they were at a position.
//
// The objects and the position always belong together. What the server sends between
// two positions is kept aside until the second one is reached: the whole of a RESET or
// a DELTA, and the parts of a revision that is too large for one message. So a reader
// never sees half a snapshot, and a stream can break at any place without harm.
export class State {
  #catchUp = 'CATCH_UP_UNSPECIFIED';
  #pending = []; // events on the way to the next position

  // The position is null where nothing is known.
  constructor(objects = [], position = null) {
    this.objects = new Map(objects.map((o) => [o.key, o]));
    this.position = position;
  }

  // apply applies a message of the stream and returns what it changed, in order:
  // arrays of 'added', 'modified' or 'deleted', the key, and the object, which is
  // null where it was deleted.
  apply(message) {
    if (message.kind === 'KIND_CATCH_UP_BEGIN') {
      this.#catchUp = message.catch_up;
      this.#pending = [];
      return [];
    }
    if (message.kind === 'KIND_DRAINING') {
      this.#pending = []; // the rest of it does not come any more
    }
    for (const event of message.events) this.#pending.push(event);
    const synced = message.kind === 'KIND_SYNCED';
    if (message.partial || (betweenPositions.includes(this.#catchUp) && !synced)) return [];
    const changes = [...this.#commit()];
    if (synced) this.#catchUp = 'CATCH_UP_UNSPECIFIED';
    this.position = message.position;
    return changes;
  }

  *#commit() {
    const events = this.#pending;
    this.#pending = [];
    if (this.#catchUp === 'CATCH_UP_RESET') {
      const there = new Set(events.map((e) => e.object.key));
      for (const key of this.objects.keys()) if (!there.has(key)) yield* this.#remove(key);
    }
    for (const { type, object } of events) {
      if (type === 'TYPE_DELETED') yield* this.#remove(object.key);
      else yield* this.#put(object);
    }
  }

  *#put(object) {
    const old = this.objects.get(object.key);
    if (isDeepStrictEqual(old, object)) return; // a RESET brought what is known already
    // A copy, because bytes that are a part of a message keep all of it in memory.
    if (object.value === 'data') object.data = Buffer.from(object.data);
    this.objects.set(object.key, object);
    yield [old ? 'modified' : 'added', object.key, object];
  }

  *#remove(key) {
    // A DELTA also names keys that were never here.
    if (this.objects.delete(key)) yield ['deleted', key, null];
  }
}
