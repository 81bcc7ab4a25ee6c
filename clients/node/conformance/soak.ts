// A program for the tests of ../../../test/clients: it keeps copies, and prints one of them for each line of its input.
//
//     node build/conformance/soak.js SERVERS RESOURCE informers|watch|list BOOKMARK_INTERVAL
//     node build/conformance/soak.js SERVERS RESOURCE file BOOKMARK_INTERVAL STATE_FILE
//
// The interval has milliseconds. With `list`, there is no copy: the program lists the objects for each line.

import { createInterface } from 'node:readline';
import { Client, type Informer, type Position, type StoredObject } from '../src/index.js';

const [servers = '', resource = '', kind, interval, stateFile = ''] = process.argv.slice(2);
const bookmarkInterval = Number(interval);
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

function watch(): () => void {
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
  return () => show(position, copy, '');
}

/** handledBy returns what a new handler of the informer has seen. */
function handledBy(informer: Informer<StoredObject>): Copy {
  const handled: Copy = new Map();
  informer.addHandler({
    add: ({ key, object }) => void handled.set(key, object.modRevision),
    update: (_, { key, object }) => void handled.set(key, object.modRevision),
    delete: ({ key }) => void handled.delete(key),
  });
  return handled;
}

function pendingOf(informer: Informer<StoredObject>, handled: Copy): string {
  if (informer.stale) return 'the informer is stale';
  return same(copyOf(informer), handled) ? '' : 'the handler has another state';
}

async function informers(): Promise<() => void> {
  const first = config.informer({ bookmarkInterval }).start();
  await first.waitForSync();
  // It joins the watch of the first.
  const joined = config.informer({ bookmarkInterval });
  const handled = handledBy(joined);
  joined.start();
  return () => {
    let pending = pendingOf(joined, handled);
    if (!pending && (first.position !== joined.position || !same(copyOf(joined), copyOf(first)))) {
      pending = 'the informers that share a watch have different states';
    }
    show(joined.position, copyOf(joined), pending);
  };
}

function file(): () => void {
  const informer = config.informer({ bookmarkInterval, lastKnownGood: { path: stateFile, maxBytes: 64 << 20 } });
  const handled = handledBy(informer);
  informer.start();
  return () => show(informer.position, copyOf(informer), pendingOf(informer, handled));
}

async function list(): Promise<void> {
  try {
    const { objects, position } = await config.list();
    show(position, new Map(objects.map(({ key, modRevision }) => [key, modRevision])), '');
  } catch (error) {
    show(undefined, new Map(), String(error));
  }
}

const kinds: Record<string, () => Promise<() => void> | (() => void)> = { informers, file, watch, list: () => () => void list() };
const print = await kinds[kind ?? '']!();
const lines = createInterface({ input: process.stdin });
lines.on('line', print);
lines.once('close', () => void client.close().then(() => process.exit()));
