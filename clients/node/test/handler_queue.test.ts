// What waits for a handler that is busy while changes go on and on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Event_Type as Type, WatchResponse_Kind as Kind } from '../src/gen/fanout/v1/fanout_pb.js';
import { Client } from '../src/index.js';
import { ScriptedServer, synced, type WatchStream } from './scripted.js';

/** change sends a change of an object. */
function change(stream: WatchStream, type: Type, key: string, revision: number): void {
  const object = { key, modRevision: BigInt(revision), value: { case: 'text' as const, value: `${revision}` } };
  const position = { epoch: 'e', revision: BigInt(revision) };
  stream.write({ kind: Kind.LIVE, position, events: [{ type, revision: position.revision, object }] });
}

void test('what waits for a busy handler is one change for each object, or none if it has come and gone', { timeout: 300_000 }, async () => {
  const rounds = 2000;
  await using server = await ScriptedServer.start({
    watch: (stream) => {
      synced(stream);
      change(stream, Type.ADDED, 'a', 2);
      let revision = 2;
      for (let n = 0; n < rounds; n++) {
        change(stream, Type.MODIFIED, 'a', ++revision);
        change(stream, Type.ADDED, `b${n}`, ++revision);
        change(stream, Type.DELETED, `b${n}`, ++revision);
      }
    },
  });
  await using client = new Client(server.address);
  const informer = client.resource('config').informer();
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const calls: string[] = [];
  let last = () => {};
  const done = new Promise<void>((resolve) => (last = resolve));
  const end = BigInt(2 + 3 * rounds);
  const handle = async (call: string) => {
    calls.push(call);
    await released;
    if (calls.length === 2) last();
  };
  informer.addHandler({
    add: ({ key, object }) => handle(`+${key} ${object.modRevision}`),
    update: (_, { key, object }) => handle(`*${key} ${object.modRevision}`),
    delete: ({ key }) => handle(`-${key}`),
  });
  const arrived = new Promise<void>((resolve) => {
    informer.on('change', ({ revision }) => {
      if (revision === end) resolve();
    });
  });
  informer.start();
  await arrived;
  assert.ok(informer.queue <= 1, `${informer.queue} changes wait`);
  release();
  await done;
  assert.deepEqual(calls, ['+a 2', `*a ${Number(end) - 2}`]);
  await informer.close();
});
