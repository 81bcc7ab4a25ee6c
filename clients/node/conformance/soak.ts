// A program for the test of ../../../test/clients: it keeps copies, and prints one of them for each line of its input.
//
//     node build/conformance/soak.js SERVERS RESOURCE informer|watch

import { createInterface } from 'node:readline';
import { Client, type Informer, type Position, type StoredObject } from '../src/index.js';

const bookmarkInterval = 300;
const [servers = '', resource = '', kind] = process.argv.slice(2);
const client = new Client(servers, { insecure: true });
const config = client.resource(resource);

type Copy = Map<string, bigint>;

function show(position: Position | undefined, objects: Copy, pending: string): void {
  const text = Object.fromEntries(Array.from(objects, ([key, revision]) => [key, `${revision}`]));
  console.log(JSON.stringify({ epoch: position?.epoch ?? '', revision: `${position?.revision ?? 0n}`, pending, objects: text }));
}

const copyOf = (informer: Informer<StoredObject>): Copy =>
  new Map(Array.from(informer, ({ key, object }) => [key, object.modRevision]));
const same = (a: Copy, b: Copy) => a.size === b.size && [...a].every(([key, revision]) => b.get(key) === revision);

async function watch(): Promise<() => void> {
  const copy: Copy = new Map();
  let position: Position | undefined;
  void (async () => {
    for await (const update of config.watch({ bookmarkInterval })) {
      if (update.replace) copy.clear();
      for (const { type, object } of update.events) {
        if (type === 'deleted') copy.delete(object.key);
        else copy.set(object.key, object.modRevision);
      }
      position = update.position;
    }
  })();
  return Promise.resolve(() => show(position, copy, ''));
}

async function informer(): Promise<() => void> {
  const handled: Copy = new Map();
  const first = config.informer({ bookmarkInterval }).start();
  await first.waitForSync();
  // It joins the watch of the first.
  const joined = config.informer({ bookmarkInterval });
  joined.addHandler({
    add: ({ key, object }) => void handled.set(key, object.modRevision),
    update: (_, { key, object }) => void handled.set(key, object.modRevision),
    delete: ({ key }) => void handled.delete(key),
  });
  joined.start();
  return () => {
    const copy = copyOf(joined);
    let pending = '';
    if (joined.stale) pending = 'the informer is stale';
    else if (!same(copy, handled)) pending = 'the handler has another state';
    else if (first.position !== joined.position || !same(copy, copyOf(first))) {
      pending = 'the informers that share a watch have different states';
    }
    show(joined.position, copy, pending);
  };
}

const print = await (kind === 'watch' ? watch() : informer());
const lines = createInterface({ input: process.stdin });
lines.on('line', print);
lines.once('close', () => void client.close().then(() => process.exit()));
