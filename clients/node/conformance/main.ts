// The test client of the conformance kit. ../../../conformance/README.md describes its commands.

import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Client, FanoutError, type Position, type StoredObject } from '../src/index.js';

/** A line of standard input. */
interface Command {
  do: 'watch' | 'stop' | 'pause' | 'continue' | 'reject' | 'accept';
  name: string;
  servers?: string[];
  client?: string;
  informer?: boolean;
  latest?: boolean;
  fromNow?: boolean;
  everyEvent?: boolean;
  labelSelector?: string;
  fieldSelector?: string;
  tokenFile?: string;
  bookmarkMillis?: number;
  state?: string;
  key?: string;
}

/** How often the test client looks whether a copy is stale, in milliseconds. */
const lookInterval = 50;

/** The largest state that is saved. */
const maxStateBytes = 64 << 20;

const clients = new Map<string, Client>();
const followers = new Map<string, Follower>();

function print(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** shown returns what is shown of an object. */
function shown({ value, contentType, labels }: StoredObject): Record<string, unknown> {
  if (value === undefined) return { contentType, labels };
  return { contentType, labels, ...(typeof value === 'string' ? { text: value } : { data: Buffer.from(value).toString('base64') }) };
}

/** A watch of the kit. */
class Follower {
  readonly stopping = new AbortController();
  readonly rejected = new Set<string>();
  readonly #command: Command;
  readonly #client: Client;
  #gate = Promise.resolve();
  #open = () => {};

  constructor(command: Command, client: Client) {
    this.#command = command;
    this.#client = client;
  }

  pause(): void {
    this.#gate = new Promise((resolve) => (this.#open = resolve));
  }

  continue(): void {
    this.#open();
  }

  async run(): Promise<void> {
    const { name, informer } = this.#command;
    try {
      await (informer ? this.#followInformer() : this.#followWatch());
      throw new Error('the watch has ended without an error');
    } catch (error) {
      if (closing) return;
      if (this.stopping.signal.aborted) print({ name, what: 'stopped' });
      else if (error instanceof FanoutError) print({ name, what: 'failed', code: error.codeName, reason: error.reason });
      else print({ name, what: 'failed', code: String(error) });
    }
  }

  get #options() {
    const { name: prefix, latest, bookmarkMillis: bookmarkInterval, labelSelector, fieldSelector } = this.#command;
    return { prefix, latest, bookmarkInterval, labelSelector, fieldSelector };
  }

  #show({ epoch, revision }: Position, objects: Iterable<[string, Record<string, unknown>]>): void {
    const { name } = this.#command;
    print({ name, what: 'state', epoch, revision: revision.toString(), objects: Object.fromEntries(objects) });
  }

  async #followWatch(): Promise<void> {
    const copy = new Map<string, Record<string, unknown>>();
    const { signal } = this.stopping;
    const onInterruption = (error: Error) => console.error(this.#command.name, error.message);
    const { fromNow, everyEvent } = this.#command;
    const options = { ...this.#options, fromNow, everyEvent, signal, onInterruption };
    for await (const update of this.#client.resource('config').watch(options)) {
      await this.#gate;
      if (update.replace) copy.clear();
      for (const { type, object } of update.events) {
        if (type === 'deleted') copy.delete(object.key);
        else copy.set(object.key, shown(object));
      }
      this.#show(update.position, copy);
    }
  }

  async #followInformer(): Promise<void> {
    const { name, state } = this.#command;
    const lastKnownGood = state === undefined ? undefined : { path: state, maxBytes: maxStateBytes };
    const informer = this.#client.resource('config').informer({ ...this.#options, lastKnownGood });
    const take = async (type: string, { key, modRevision }: StoredObject) => {
      await this.#gate;
      const rejected = this.rejected.has(key);
      print({ name, what: 'handler', type, key, revision: modRevision.toString(), rejected });
      if (rejected) throw new Error('the application rejects the object');
    };
    informer.addHandler({
      add: ({ object }) => take('add', object),
      update: (_, { object }) => take('update', object),
      delete: ({ object }) => take('delete', object),
    });
    informer.on('change', (position) => {
      this.#show(position, Array.from(informer, ({ key, object }) => [key, shown(object)]));
    });
    informer.on('interruption', (error) => console.error(name, error.message));
    informer.on('warning', (error) => {
      console.error(name, error.message);
      print({ name, what: 'damaged' });
    });
    const failed = new Promise<never>((_, reject) => informer.on('error', reject));
    const stopped = new Promise<void>((resolve) => this.stopping.signal.addEventListener('abort', () => resolve()));
    informer.start();
    informer.waitForSync().then(
      () => print({ name, what: 'synced' }),
      () => {}, // the informer has ended
    );
    let stale = true;
    const looking = setInterval(() => {
      if (informer.stale === stale) return;
      stale = !stale;
      print({ name, what: 'stale', stale });
    }, lookInterval);
    looking.unref(); // the client may be closed before the informer
    try {
      await Promise.race([failed, stopped]);
      await informer.close();
    } finally {
      clearInterval(looking);
    }
  }
}

function clientOf({ client: name = '', servers = [], tokenFile }: Command): Client {
  let client = clients.get(name);
  if (!client) {
    const token = tokenFile === undefined ? undefined : async () => (await readFile(tokenFile, 'utf8')).trim();
    client = new Client(servers, { insecure: true, token });
    clients.set(name, client);
  }
  return client;
}

function obey(command: Command): void {
  const { name, key = '' } = command;
  if (command.do === 'watch') {
    const follower = new Follower(command, clientOf(command));
    followers.set(name, follower);
    void follower.run();
    return;
  }
  const follower = followers.get(name);
  if (!follower) throw new Error(`there is no watch ${name}`);
  switch (command.do) {
    case 'stop':
      follower.stopping.abort();
      follower.continue();
      return;
    case 'pause':
      follower.pause();
      break;
    case 'continue':
      follower.continue();
      break;
    case 'reject':
      follower.rejected.add(key);
      break;
    case 'accept':
      follower.rejected.delete(key);
  }
  print({ name, what: 'done' });
}

let closing = false;
for await (const line of createInterface({ input: process.stdin })) obey(JSON.parse(line) as Command);
closing = true;
for (const follower of followers.values()) follower.continue();
await Promise.all(Array.from(clients.values(), (client) => client.close()));
// Nothing keeps the process alive now.
