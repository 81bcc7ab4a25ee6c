// What each object of a copy costs.

import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { ObjectSchema } from '../src/gen/fanout/v1/object_pb.js';
import type { Handler } from '../src/handler.js';
import { objectOf } from '../src/object.js';
import { FollowedCopy } from './followed_copy.js';

const objects = 1000;

/** promisesFor returns how many promises are made while a handler is offered all objects. */
async function promisesFor(handler: Handler<string>): Promise<number> {
  const copy = new FollowedCopy(handler);
  let count = 0;
  const hook = createHook({
    init: (_, type) => {
      if (type === 'PROMISE') count++;
    },
  });
  hook.enable();
  copy.add(...Array.from({ length: objects }, (_, n) => `${n}`));
  await copy.handled();
  hook.disable();
  copy.loop.remove();
  await copy.loop.done;
  return count;
}

void test('no promise is made for an object if the handler returns none, or has no function for it', async () => {
  let calls = 0;
  for (const handler of [{ update: () => {} }, { add: () => { calls++; } }]) {
    const count = await promisesFor(handler);
    assert.ok(count < objects, `${count} promises for ${objects} objects`);
  }
  assert.equal(calls, objects);
});

void test('a handler that removes itself gets no further calls', async () => {
  let calls = 0;
  const copy: FollowedCopy = new FollowedCopy({
    add: () => {
      calls++;
      copy.loop.remove();
    },
  });
  copy.add('a', 'b');
  await copy.loop.done;
  assert.equal(calls, 1);
});

void test('objects without labels share them, and others have their own', () => {
  const labelsOf = (labels: Record<string, string>) => objectOf(create(ObjectSchema, { labels })).labels;
  assert.equal(labelsOf({}), labelsOf({}));
  assert.ok(Object.isFrozen(labelsOf({})));
  assert.deepEqual(labelsOf({ team: 'x' }), { team: 'x' });
});
