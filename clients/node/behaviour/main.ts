// Runs the client for the tests of ../../../test/behaviour, whose package driver describes the commands.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import {
  Client,
  clientClosed,
  FanoutError,
  textOf,
  type CallOptions,
  type HistoryEntry,
  type Informer,
  type Item,
  type Resource,
  type StoredObject,
  type Value,
} from '../src/index.js';

/** A line of standard input. */
interface Command {
  id: number;
  do: string;
  client?: string;
  name?: string;
  servers?: string[];
  insecure?: boolean;
  ca?: string;
  cert?: string;
  privateKey?: string;
  token?: string;
  tokenFile?: string;
  key?: string;
  prefix?: string;
  value?: string;
  odd?: string;
  labels?: Record<string, string>;
  contentType?: string;
  pageSize?: number;
  message?: string;
  skip?: boolean;
  lastChange?: boolean;
  values?: boolean;
  time?: string;
  upTo?: number;
  millis?: number;
  bookmarkMillis?: number;
  epoch?: string;
  revision?: number;
  fromNow?: boolean;
  minRevision?: number;
  atRevision?: number;
  everyEvent?: boolean;
  state?: string;
  stopped?: boolean;
  callbacks?: Record<string, string>;
  does?: string;
  handler?: string;
  times?: number;
  seconds?: number;
}

type Line = Record<string, unknown>;

/** A watch or an informer. */
interface Follower {
  close(): Promise<void>;
  start?(): void;
  sync?(timeout: number | undefined): Promise<void>;
  state?(): Line;
  add?(command: Command): void;
}

const clients = new Map<string, Client>();
const followers = new Map<string, Follower>();
const odd: Record<string, unknown> = { undefined: undefined, null: null, number: 1, object: { a: 1 } };

function print(line: Line): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function described(error: unknown): Line {
  if (error === undefined) return {};
  if (error instanceof FanoutError) {
    const code = error.reason === clientClosed ? 'CLOSED' : error.codeName;
    const violations = error.violations.map(({ field, description }) => `${field}: ${description}`);
    return { code, reason: error.reason ?? '', message: error.message, violations };
  }
  const { name, message } = error as Error;
  if (name === 'AbortError' || message.includes('closed')) return { code: 'CLOSED', message };
  if (name === 'TimeoutError') return { code: 'DEADLINE_EXCEEDED', message };
  return { code: 'REFUSED', message: `${name}: ${message}` };
}

function shown(object: StoredObject): Line {
  const data = Buffer.from(object.value ?? '');
  const { contentType, labels, hasTTL } = object;
  return { value: data.length > 1000 ? '' : data.toString(), bytes: data.length, contentType, labels, hasTTL };
}

function shownEntry(e: HistoryEntry): Line {
  const { kind, key, revision, author, time, message, replacedRevision, transactionWrites: writes, hasTTL, object } = e;
  const numbers = { revision: Number(revision), replaced: Number(replacedRevision), writes };
  return { kind, key, author, time, message, hasTTL, ...numbers, ...(object && { object: shown(object) }) };
}

function newClient(c: Command): Client {
  const { servers = [], insecure, ca, cert, privateKey, token, tokenFile } = c;
  const read = (path: string | undefined) => (path === undefined ? undefined : readFileSync(path));
  const settings = () => ({ ca: read(ca)!, ...(cert !== undefined && { cert: read(cert)!, key: read(privateKey)! }) });
  return new Client(servers, {
    ...(insecure !== undefined && { insecure }),
    ...(ca !== undefined && { tls: cert === undefined ? settings() : settings }),
    ...(token !== undefined && { token }),
    ...(tokenFile !== undefined && { token: () => readFileSync(tokenFile, 'utf8').trim() }),
  });
}

/** step moves the wall clock of this program. */
function step(seconds: number): void {
  const now = Date.now;
  const RealDate = Date;
  class SteppedDate extends RealDate {
    constructor(...args: unknown[]) {
      super(...((args.length === 0 ? [SteppedDate.now()] : args) as [number]));
    }
    static override now(): number {
      return now.call(RealDate) + seconds * 1000;
    }
  }
  globalThis.Date = SteppedDate as DateConstructor;
}

async function request(c: Command, config: Resource): Promise<Line> {
  const { key = '', prefix, value = '', labels, contentType, pageSize } = c;
  const limit = c.millis === undefined ? {} : { timeout: c.millis };
  const why = { ...limit, message: c.message, skipValidation: c.skip };
  const content = { ...(labels && { labels }), ...(contentType !== undefined && { contentType }) };
  const more = { ...why, ...content };
  const at = c.time === undefined ? undefined : new Date(c.time);
  const given = (c.odd === undefined ? value : odd[c.odd]) as Value;
  switch (c.do) {
    case 'get': {
      const { object, lastChange } = await config.get(key, { ...limit, lastChange: c.lastChange });
      return { object: shown(object), entries: lastChange && [lastChange] };
    }
    case 'history': {
      const entries: Line[] = [];
      const upTo = c.upTo === undefined ? undefined : BigInt(c.upTo);
      for await (const entry of config.history({ prefix, pageSize, values: c.values, at, upTo, ...limit })) entries.push(shownEntry(entry));
      return { entries };
    }
    case 'revision-at':
      return { revision: Number(await config.revisionAt(at!, { prefix, ...limit })) };
    case 'validate':
      await config.validate(key, given, more);
      return {};
    case 'list':
      return { keys: (await config.list({ prefix, pageSize, ...limit })).objects.map((o) => o.key) };
    case 'count':
      return { count: Number((await config.count({ prefix, ...limit })).count) };
    case 'put':
      await config.put(key, given, more);
      return {};
    case 'delete':
      await config.delete(key, why);
      return {};
    case 'transact':
      await config.transact([{ put: { key, value, ...content } }], why);
      return {};
    case 'update':
      await config.update(key, () => value, more);
      return {};
  }
  throw new Error(`unknown command ${c.do}`);
}

/** misbehave does what a handler or a callback is told to do. */
async function misbehave(does: string | undefined, signal?: AbortSignal, name?: string): Promise<void> {
  switch (does) {
    case 'throw':
      throw new Error('told to fail');
    case 'exit':
      throw undefined as unknown as Error; // what a library may reject with
    case 'cancel':
      throw new DOMException('told to cancel', 'AbortError');
    case 'hang':
      signal?.addEventListener('abort', () => print({ name, what: 'signalled' }));
      await new Promise<never>(() => {});
  }
}

/** misbehaveNow does what a callback is told to do. It throws at once, without a promise. */
function misbehaveNow(does: string | undefined): unknown {
  if (does === 'throw' || does === 'cancel') throw new Error('told to fail');
  if (does === 'exit') throw undefined as unknown as Error;
  return does === 'hang' ? new Promise<never>(() => {}) : undefined;
}

function watch(c: Command, client: Client): Follower {
  const { name = '', prefix, bookmarkMillis: bookmarkInterval, fromNow, everyEvent, callbacks } = c;
  const { minRevision, atRevision } = c;
  const stopping = new AbortController();
  const consistency =
    minRevision !== undefined
      ? { minRevision: BigInt(minRevision) }
      : atRevision !== undefined
        ? { exactRevision: BigInt(atRevision) }
        : undefined;
  const updates = client.resource('config').watch({
    prefix,
    bookmarkInterval,
    fromNow,
    everyEvent,
    consistency,
    signal: stopping.signal,
    after: c.revision === undefined ? undefined : { epoch: c.epoch ?? '', revision: BigInt(c.revision) },
    onInterruption: (error) => {
      print({ name, what: 'interrupted', ...described(error) });
      return misbehaveNow(callbacks?.interruption);
    },
  });
  void (async () => {
    let end: unknown;
    try {
      for await (const { replace, position, events } of updates) {
        const keys = events.map(({ object }) => object.key);
        print({ name, what: 'updated', replace, epoch: position.epoch, revision: Number(position.revision), keys });
        if (c.does === 'close') stopping.abort();
        else if (c.does === 'close-client') await client.close();
      }
    } catch (error) {
      end = error;
    }
    print({ name, what: 'ended', ...described(end) });
  })();
  return {
    close: () => {
      stopping.abort();
      return Promise.resolve();
    },
  };
}

function handle(c: Command, informer: Informer<StoredObject>, client: Client, name: string): void {
  const failures = new Map<string, number>();
  const take = async (type: string, { key }: Item<StoredObject>, signal: AbortSignal | undefined): Promise<void> => {
    print({ name, what: 'called', handler: c.handler, type, key });
    if (c.does === 'throw') {
      failures.set(key, (failures.get(key) ?? 0) + 1);
      if (c.times !== undefined && failures.get(key)! > c.times) return;
    }
    if (c.does === 'close') await informer.close();
    else if (c.does === 'close-client') await client.close();
    else await misbehave(c.does, signal, name);
  };
  informer.addHandler({
    add: (item, context?: { signal: AbortSignal }) => take('added', item, context?.signal),
    update: (_, item, context?: { signal: AbortSignal }) => take('modified', item, context?.signal),
    delete: (item, context?: { signal: AbortSignal }) => take('deleted', item, context?.signal),
  });
}

function follow(c: Command, client: Client): Follower {
  const { name = '', prefix, bookmarkMillis: bookmarkInterval, state, callbacks = {} } = c;
  const informer = client.resource('config').informer({
    prefix,
    bookmarkInterval,
    decode: (object) => {
      JSON.parse(textOf(object));
      misbehaveNow(callbacks.decode);
      return object;
    },
    lastKnownGood: state === undefined ? undefined : { path: state, maxBytes: 1 << 20 },
  });
  informer.on('interruption', (error) => {
    print({ name, what: 'interrupted', ...described(error) });
    return misbehaveNow(callbacks.interruption);
  });
  informer.on('invalid', ({ key }, error) => {
    print({ name, what: 'invalid', key, message: String(error) });
    return misbehaveNow(callbacks.invalid);
  });
  informer.on('warning', (error) => {
    print({ name, what: 'warned', message: String(error) });
    return misbehaveNow(callbacks.invalid);
  });
  informer.on('sync', () => misbehaveNow(callbacks.sync));
  let end: unknown;
  informer.on('error', (error) => (end = error));
  informer.on('close', () => print({ name, what: 'ended', ...described(end) }));
  if (c.handler !== undefined) handle(c, informer, client, name);
  if (!c.stopped) informer.start();
  return {
    start: () => void informer.start(),
    close: () => informer.close(),
    sync: (timeout) => {
      const options: CallOptions = { timeout };
      return informer.waitForSync(options);
    },
    add: (command) => handle(command, informer, client, name),
    state: () => {
      const objects = Array.from(informer, ({ key, object, invalid }) => {
        return [key, { ...shown(object), invalid: invalid !== undefined }] as const;
      });
      return { objects: Object.fromEntries(objects), stale: informer.stale };
    },
  };
}

async function obey(c: Command): Promise<Line> {
  const client = clients.get(c.client ?? '');
  const follower = followers.get(c.name ?? '');
  switch (c.do) {
    case 'client':
      clients.set(c.client ?? '', newClient(c));
      return {};
    case 'step':
      step(c.seconds ?? 0);
      return {};
    case 'close':
      await (follower ?? client)!.close();
      return {};
    case 'start':
      follower!.start!();
      return {};
    case 'handler':
      follower!.add!(c);
      return {};
    case 'sync':
      await follower!.sync!(c.millis);
      return {};
    case 'state':
      return follower!.state!();
    case 'watch':
      followers.set(c.name!, watch(c, client!));
      return {};
    case 'informer':
      followers.set(c.name!, follow(c, client!));
      return {};
  }
  return request(c, client!.resource('config'));
}

process.stdout.on('error', () => process.exit());
for await (const text of createInterface({ input: process.stdin })) {
  const command = JSON.parse(text) as Command;
  obey(command).then(
    (line) => print({ id: command.id, ...line }),
    (error: unknown) => print({ id: command.id, ...described(error ?? new Error('undefined')) }),
  );
}
process.exit();
