import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { Assembler } from '../src/assembler.js';
import { Event_Type, WatchResponse_CatchUp as CatchUp, WatchResponse_Kind as Kind, WatchResponseSchema } from '../src/gen/fanout/v1/fanout_pb.js';

const position = (revision: bigint) => ({ epoch: 'e', revision });
const added = (key: string) => ({ type: Event_Type.ADDED, object: { key }, revision: 1n });

void test('the size of an update is that of all its messages', () => {
  const assembler = new Assembler();
  const part = (kind: Kind, catchUp: CatchUp, ...keys: string[]) =>
    assembler.accept(create(WatchResponseSchema, { kind, catchUp, position: position(3n), events: keys.map(added) }), 10);
  assert.equal(part(Kind.CATCH_UP_BEGIN, CatchUp.RESET), undefined);
  assert.equal(part(Kind.CATCH_UP_PART, CatchUp.UNSPECIFIED, 'a'), undefined);
  assert.equal(part(Kind.CATCH_UP_PART, CatchUp.UNSPECIFIED, 'b', 'c'), undefined);
  const complete = part(Kind.SYNCED, CatchUp.UNSPECIFIED);
  assert.equal(complete?.size, 30);
  assert.equal(complete.update.replace, true);
  assert.deepEqual(complete.update.events.map(({ object }) => object.key), ['a', 'b', 'c']);
});

void test('bytes of an object do not keep the message in memory', () => {
  const message = Buffer.alloc(1 << 20);
  const event = { ...added('a'), object: { key: 'a', value: { case: 'data' as const, value: message.subarray(10, 20) } } };
  const response = create(WatchResponseSchema, { kind: Kind.LIVE, position: position(1n), events: [event] });
  const { value } = new Assembler().accept(response, 1 << 20)!.update.events[0]!.object;
  assert.ok(value instanceof Uint8Array);
  assert.equal(value.buffer.byteLength, 10);
});
