// The state of a subscriber: its objects, and the position at which they were so.

import { isDeepStrictEqual } from 'node:util';

// Catch-ups whose events must be held back until SYNCED. The events of a REPLAY need not:
// its position advances with them.
const heldUntilSynced = ['CATCH_UP_RESET', 'CATCH_UP_DELTA'];

// State is the objects of a watch by key, as they were at a position.
//
// Objects and position always belong together. Events that lie after the position are held
// back until the next position is reached: the events of a RESET or a DELTA, and those of
// partial messages. So readers never see half a snapshot, and a stream may break at any
// place.
export class State {
  #catchUp = 'CATCH_UP_UNSPECIFIED';
  #held = []; // events after the position

  // The position is null if there is no state yet.
  constructor(objects = [], position = null) {
    this.objects = new Map(objects.map((o) => [o.key, o]));
    this.position = position;
  }

  // apply applies a message of the stream. It returns the changes in order, as arrays of
  // 'added', 'modified' or 'deleted', the key, and the object, which is null for
  // 'deleted'.
  apply(message) {
    if (message.kind === 'KIND_CATCH_UP_BEGIN') {
      this.#catchUp = message.catch_up;
      this.#held = [];
      return [];
    }
    if (message.kind === 'KIND_DRAINING') {
      this.#held = []; // the rest of them will not come
    }
    for (const event of message.events) this.#held.push(event);
    const synced = message.kind === 'KIND_SYNCED';
    if (message.partial || (heldUntilSynced.includes(this.#catchUp) && !synced)) return [];
    const changes = [...this.#applyHeld()];
    if (synced) this.#catchUp = 'CATCH_UP_UNSPECIFIED';
    this.position = message.position;
    return changes;
  }

  *#applyHeld() {
    const events = this.#held;
    this.#held = [];
    if (this.#catchUp === 'CATCH_UP_RESET') {
      const present = new Set(events.map((e) => e.object.key));
      for (const key of this.objects.keys()) if (!present.has(key)) yield* this.#remove(key);
    }
    for (const { type, object } of events) {
      if (type === 'TYPE_DELETED') yield* this.#remove(object.key);
      else yield* this.#put(object);
    }
  }

  *#put(object) {
    const old = this.objects.get(object.key);
    if (isDeepStrictEqual(old, object)) return; // a RESET repeats unchanged objects
    // Copy the bytes: a view of a message keeps the whole message in memory.
    if (object.value === 'data') object.data = Buffer.from(object.data);
    this.objects.set(object.key, object);
    yield [old ? 'modified' : 'added', object.key, object];
  }

  *#remove(key) {
    // A DELTA may delete keys that were never here.
    if (this.objects.delete(key)) yield ['deleted', key, null];
  }
}
