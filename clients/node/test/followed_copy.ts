// A copy that one handler follows, without an informer.

import { setImmediate } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { ObjectSchema } from '../src/gen/fanout/v1/object_pb.js';
import { HandlerLoop, type Handler } from '../src/handler.js';
import type { Item } from '../src/item.js';
import type { Mark } from '../src/mark.js';
import { objectOf } from '../src/object.js';

/** A copy whose objects a test adds. */
export class FollowedCopy {
  readonly loop: HandlerLoop<string>;
  /** The delays in milliseconds after the calls that have failed. */
  readonly delays: number[] = [];
  readonly #items = new Map<string, Item<string>>();
  #mark: Mark = { number: 0, position: undefined };

  constructor(handler: Handler<string>) {
    this.loop = new HandlerLoop<string>(handler, this.#source, () => {});
  }

  readonly #source = ((copy: FollowedCopy) => ({
    name: 'config',
    owners: [],
    get mark() {
      return copy.#mark;
    },
    get: (key: string) => copy.#items.get(key),
    isFresh: () => true,
    progressed: () => {},
    failed: (_key: string, _error: unknown, delay: number) => void copy.delays.push(delay),
  }))(this);

  /** add adds objects in one state. */
  add(...keys: string[]): void {
    const before = this.#mark;
    this.#mark = { number: before.number + 1, position: undefined };
    for (const key of keys) this.#items.set(key, { key, value: '', object: objectOf(create(ObjectSchema, { key })), invalid: undefined });
    this.loop.changed(keys.map((key) => ({ key, old: undefined })), before);
  }

  /** handled waits until the handler was offered each object. */
  async handled(): Promise<void> {
    while (this.loop.handled !== this.#mark) await setImmediate();
  }
}
