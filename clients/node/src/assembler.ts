// Makes complete updates of the messages of a watch.

import {
  Event_Type,
  WatchResponse_CatchUp as CatchUp,
  WatchResponse_Kind as Kind,
  type Event as EventMessage,
  type WatchResponse,
} from './gen/fanout/v1/fanout_pb.js';
import { Printable } from './json.js';
import { objectOf, positionOf, type Position, type StoredObject } from './object.js';

/** A change of an object. */
export interface WatchEvent {
  /**
   * How the view of the watch has changed. Apply events by key: after an interruption, an object may be
   * `modified` that you do not have, or `deleted` that you never had.
   */
  readonly type: 'added' | 'modified' | 'deleted';
  /** The object after the change. If it was deleted: the last content, or only the key. */
  readonly object: StoredObject;
  /** The object before the change, with `previousObject`. */
  readonly previous?: StoredObject;
  /** The revision of the change. */
  readonly revision: bigint;
}

/** An update leads a copy from one complete state to the next one. */
export interface Update {
  /** The events, in order of their revisions. Empty if only the position has changed. */
  readonly events: readonly WatchEvent[];
  /** Forget the copy first: the events are the whole new state. */
  readonly replace: boolean;
  /** The events are the difference after a long interruption: the latest state of each key that has changed. */
  readonly delta: boolean;
  /** Where the copy is after the events. Save it together with the copy, and pass it to `after`. */
  readonly position: Position;
  /** The servers had no other changes at this time, in milliseconds since 1970. 0 if it is unknown, as in a catch-up. */
  readonly asOf: number;
}

/** The event of a message. */
class ReadEvent extends Printable implements WatchEvent {
  declare readonly type: WatchEvent['type'];
  declare readonly object: StoredObject;
  declare readonly revision: bigint;
  declare readonly previous?: StoredObject;

  constructor(type: WatchEvent['type'], { revision, previous }: EventMessage, object: NonNullable<EventMessage['object']>) {
    super();
    this.type = type;
    this.object = objectOf(object);
    this.revision = revision;
    if (previous) this.previous = objectOf(previous);
  }
}

/** @internal An update with the time at which it was confirmed. */
export class CompleteUpdate extends Printable implements Update {
  readonly events: readonly WatchEvent[];
  readonly replace: boolean;
  readonly delta: boolean;
  readonly position: Position;
  readonly asOf: number;
  readonly #confirmedAt: number;

  constructor({ events, replace, delta, position }: Omit<Update, 'asOf'>, confirmedAt: number) {
    super();
    this.events = events;
    this.replace = replace;
    this.delta = delta;
    this.position = position;
    this.asOf = confirmedAt === -Infinity ? 0 : Math.round(Date.now() - (performance.now() - confirmedAt));
    this.#confirmedAt = confirmedAt;
  }

  /** The same as `asOf` on the clock of performance.now. -Infinity if it is unknown. */
  get confirmedAt(): number {
    return this.#confirmedAt;
  }
}

const types: Partial<Record<Event_Type, WatchEvent['type']>> = {
  [Event_Type.ADDED]: 'added',
  [Event_Type.MODIFIED]: 'modified',
  [Event_Type.DELETED]: 'deleted',
};

/**
 * Assembler holds back events that lie after the position of the watch: those of a RESET or a DELTA until
 * SYNCED, and those of partial messages until the last part. So every update ends with a complete state, and
 * the stream may break at any place.
 *
 * @internal
 */
export class Assembler {
  #catchUp = CatchUp.UNSPECIFIED;
  #held: WatchEvent[] = [];
  #size = 0;

  /** begin begins a stream. What is held of the last one is dropped. */
  begin(): void {
    this.#catchUp = CatchUp.UNSPECIFIED;
    this.#drop();
  }

  #drop(): void {
    this.#held = [];
    this.#size = 0;
  }

  /**
   * accept takes a message, and returns the update that it completes, with its size in bytes. `confirmedAt` is as of when
   * the servers have confirmed the state after it.
   */
  accept(message: WatchResponse, size: number, confirmedAt = -Infinity): { update: CompleteUpdate; size: number } | undefined {
    switch (message.kind) {
      case Kind.CATCH_UP_BEGIN:
        this.#catchUp = message.catchUp;
        this.#drop();
        return undefined;
      case Kind.DRAINING:
        this.#drop(); // the rest of it does not come
    }
    for (const event of message.events) {
      const type = types[event.type];
      if (type && event.object) this.#held.push(new ReadEvent(type, event, event.object));
    }
    this.#size += size;
    const held = this.#catchUp === CatchUp.RESET || this.#catchUp === CatchUp.DELTA;
    const synced = message.kind === Kind.SYNCED;
    if (message.partial || (held && !synced)) return undefined;
    const position = positionOf(message.position);
    if (position.revision === 0n) return undefined; // no place to continue from
    const replace = this.#catchUp === CatchUp.RESET;
    const delta = this.#catchUp === CatchUp.DELTA;
    const update = new CompleteUpdate({ events: this.#held, replace, delta, position }, confirmedAt);
    const complete = { update, size: this.#size };
    this.#drop();
    if (synced) this.#catchUp = CatchUp.UNSPECIFIED;
    return complete;
  }
}
