// How long a state is current.

import { durationMs } from '@bufbuild/protobuf/wkt';
import { WatchResponse_CatchUp as CatchUp, WatchResponse_Kind as Kind, type WatchResponse } from './gen/fanout/v1/fanout_pb.js';

/** How long a message may be on its way, and the ages that servers do not state, in milliseconds. */
const transit = 1000;

/**
 * Returns how long a copy counts as current after a server has confirmed it: three bookmark intervals. A server confirms
 * it once per interval, so it may be as old as two of them. That and the transit take longer than three short intervals.
 */
export function freshFor(bookmarks: number): number {
  return Math.max(3 * bookmarks, 2 * (bookmarks + transit));
}

/** What the servers have confirmed of the state of a watch. All times are those of performance.now. */
export class Confirmations {
  #at = -Infinity;
  #requested = -Infinity;
  #linearizable = false;
  #catchingUp = false;

  /** requested notes a new stream, and whether its request makes the server ask etcd first. */
  requested(now: number, linearizable: boolean): void {
    this.#requested = now;
    this.#linearizable = linearizable;
    this.#catchingUp = false;
  }

  /** note notes a message of the stream. */
  note({ kind, catchUp, age, partial }: WatchResponse, now: number): void {
    if (kind === Kind.CATCH_UP_BEGIN) {
      this.#catchingUp = true;
      if (catchUp === CatchUp.RESET) this.#at = -Infinity; // the new state may come from a server that has lost etcd
    }
    if (partial || (kind !== Kind.SYNCED && kind !== Kind.LIVE && kind !== Kind.BOOKMARK)) return;
    const confirmed = now - (age ? durationMs(age) : 0);
    let at = confirmed - transit;
    if (kind === Kind.SYNCED) {
      this.#catchingUp = false;
      // The server has asked etcd since the stream was requested, unless it states an age from before.
      if (this.#linearizable || !age || confirmed >= this.#requested) at = Math.max(at, this.#requested);
    }
    this.#at = Math.max(this.#at, at); // what was confirmed once stays true
  }

  /** As of when the state had everything that the servers had. -Infinity if that is unknown. */
  get at(): number {
    return this.#catchingUp ? -Infinity : this.#at;
  }
}
