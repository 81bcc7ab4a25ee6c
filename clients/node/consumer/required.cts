// A CommonJS program of a user of the package. `check` compiles it for Node.js 16 and later, and runs it.

import assert = require('node:assert/strict');
import client = require('@fanoutd/client');
import { Client, FanoutError, type CallOptions, type ClientOptions, type FanoutErrorDetails } from '@fanoutd/client';
import type {
  DeleteOptions,
  GetOptions,
  InformerOptions,
  ListOptions,
  Observer,
  PutOperation,
  PutOptions,
  SubscriberOptions,
  TLSOptions,
  WaitOptions,
  WatchOptions,
} from '@fanoutd/client';
import { TestServer, type TestServerOptions } from '@fanoutd/client/testing';

/** The optional properties that must not be undefined, with `exactOptionalPropertyTypes`. */
type Strict<T> = {
  [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? (Record<K, undefined> extends Pick<T, K> ? never : K) : never;
}[keyof T];
type None<T extends never> = T;
export type Checked = None<
  | Strict<CallOptions>
  | Strict<ClientOptions>
  | Strict<DeleteOptions>
  | Strict<FanoutErrorDetails>
  | Strict<GetOptions>
  | Strict<InformerOptions<unknown>>
  | Strict<ListOptions>
  | Strict<Observer>
  | Strict<PutOperation>
  | Strict<PutOptions>
  | Strict<SubscriberOptions>
  | Strict<TestServerOptions>
  | Strict<TLSOptions>
  | Strict<WaitOptions>
  | Strict<WatchOptions>
>;

async function main(): Promise<void> {
  const options: ClientOptions = { tls: undefined, token: undefined, logger: console };
  const unused = new Client(['a:7420', 'b:7420'], options);
  await unused.close();
  await assert.rejects(unused.resource('config').get('a'), FanoutError);

  // Its unit tests may start a server.
  await assert.rejects(TestServer.start({ program: '/no/such' }), /there is no program '\/no\/such'/);

  // A program that imports and requires the package has one class.
  const imported = await import('@fanoutd/client');
  assert.equal(imported.FanoutError, client.FanoutError);
  assert.deepEqual(Object.keys(imported).sort(), Object.keys(client).sort());
  assert.equal(require('@fanoutd/client/package.json').name, '@fanoutd/client');
}

void main();
