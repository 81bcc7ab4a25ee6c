// Keeps a copy with nats.js.

import { Kvm } from '@nats-io/kv';
import { connect } from '@nats-io/transport-node';
import { address, changed, has } from './progress.js';

const connection = await connect({ servers: address });
const bucket = await new Kvm(connection).open('fanoutbench');
const copy = new Map();
for await (const entry of await bucket.watch()) {
  if (entry.operation === 'PUT') copy.set(entry.key, entry.string());
  else copy.delete(entry.key);
  changed();
  has(copy.size);
}
