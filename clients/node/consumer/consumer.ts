// A program of a user of the package. `check` compiles it.

import { readFile } from 'node:fs/promises';
import {
  Client,
  codes,
  FanoutError,
  type HistoryEntry,
  jsonDecoder,
  RefusedError,
  type Informer,
  type Item,
  type Position,
  type PositionJSON,
  type Reason,
  type Resource,
  type StoredObject,
  type Update,
  type Watch,
} from '@fanoutd/client';
import { TestServer } from '@fanoutd/client/testing';

interface Limits {
  rps: number;
}

await using client = new Client(['a:7420', 'b:7420'], {
  tls: () => ({ ca: new Uint8Array(), serverName: 'fanoutd.example.com' }),
  token: async () => (await readFile('/run/secrets/token', 'utf8')).trim(),
  subscriber: { labels: { app: 'shop' } },
});
const config: Resource = client.resource('config');

export async function write(): Promise<bigint> {
  await config.update('visits', (current) => String(Number(current?.value ?? 0) + 1));
  await config.transact([{ put: { key: 'a', value: '1' } }, { check: { key: 'b', modRevision: 0n } }]);
  const { revision } = await config.put('shop/limits', '{"rps": 1}', { ifModRevision: 0n, timeout: 300_000 });
  return revision;
}

export async function changesOf(key: string): Promise<string[]> {
  const changes: string[] = [];
  const history: AsyncIterable<HistoryEntry> = config.history({ key, at: new Date(), pageSize: 10 });
  for await (const { kind, author, time, message } of history) {
    changes.push(`${kind} ${author} ${time?.toISOString() ?? ''} ${message}`);
  }
  const { lastChange } = await config.get(key, { lastChange: true });
  if (lastChange) await config.delete(key, { message: `after ${lastChange.author}`, skipValidation: true });
  return changes;
}

export async function reasonOfGet(): Promise<Reason | undefined> {
  try {
    await config.get('no/such', { consistency: 'any' });
  } catch (error) {
    if (error instanceof FanoutError && error.code === codes.NOT_FOUND) return error.reason;
    throw error;
  }
  return undefined;
}

export async function follow(signal: AbortSignal, after?: Position): Promise<Update | undefined> {
  for await (const update of config.watch({ prefix: 'shop', signal, after })) {
    for (const { type, object } of update.events) if (type === 'deleted') console.log(object.key);
    if (update.events.length > 0) return update;
  }
  return undefined;
}

const limits: Informer<Limits> = config.informer({ key: 'shop/limits', decode: jsonDecoder<Limits>() });
const registration = limits.addHandler({ update: (old, { value }, { signal }) => console.log(old.value.rps, value.rps, signal.aborted) });
limits.on('invalid', (object, error, old) => console.log(object.key, error.message, old?.value.rps));
await limits.start().waitForSync({ timeout: 60_000 });
await registration.synced;
registration.remove();
export const objects: Informer<StoredObject> = config.informer({ prefix: 'shop' });
export const names = config.informer({ decode: ({ key }) => key });
export const name: string | undefined = names.get('a')?.value;
await limits.close({ timeout: 1000 });
export const item: Item<Limits> | undefined = limits.get('shop/limits');

export async function deployed(revision: bigint): Promise<string[]> {
  try {
    const { servers } = await config.wait(revision, { key: 'shop/limits', quorum: 0.9, timeout: 60_000, progress: (s) => console.log(s.detail()) });
    return servers.map(({ address }) => address);
  } catch (error) {
    if (error instanceof RefusedError) return error.failures.map(({ name, failedKeys }) => `${name}: ${failedKeys.join()}`);
    throw error;
  }
}

export async function refused(): Promise<void> {
  await using server: TestServer = await TestServer.start({ resources: ['config'] });
  await using tested = new Client(server.address, { insecure: true });
  await server.refuse(codes.UNAVAILABLE, 'NOT_READY');
  await tested.resource('config').count();
}

export async function readOnce(): Promise<string> {
  await using watch: Watch = config.watch({ prefix: 'shop' });
  await watch.next();
  return JSON.stringify(watch.position);
}

export function resume(saved: string): Watch {
  return config.watch({ after: JSON.parse(saved) as PositionJSON });
}

// The compiler must find these mistakes.
// @ts-expect-error -- connections are not public
client.connection();
// @ts-expect-error -- the pool is not public
void client.pool;
// @ts-expect-error -- there is no such option
new Client('a:7420', { insecure: true, tokens: 'x' });
// @ts-expect-error -- revisions are of type bigint
await config.put('a', '1', { ifModRevision: 1 });
// @ts-expect-error -- there is no such event
limits.on('changed', () => {});
// @ts-expect-error -- an item may be missing
console.log(limits.get('shop/limits').value.rps);
// @ts-expect-error -- a decoder cannot wait
config.informer({ decode: (object) => Promise.resolve(object.key) });
// @ts-expect-error -- without a decoder, the values are objects
config.informer<Limits>({ key: 'shop/limits' });
// @ts-expect-error -- that is not a value
await config.put('a', undefined);
// @ts-expect-error -- nor is that
await config.update('a', () => 1);
