// Keeps a copy with etcd3.

import { Etcd3 } from 'etcd3';
import { address, changed, has } from './progress.js';

const prefix = '/fanoutd/bench/';
const etcd = new Etcd3({ hosts: `http://${address}`, grpcOptions: { 'grpc.max_receive_message_length': -1 } });
const copy = new Map();
const { kvs, header } = await etcd.getAll().prefix(prefix).exec();
for (const { key, value } of kvs) copy.set(key.toString(), value.toString());
const watcher = await etcd
  .watch()
  .prefix(prefix)
  .startRevision(String(BigInt(header.revision) + 1n))
  .create();
watcher.on('put', ({ key, value }) => {
  copy.set(key.toString(), value.toString());
  changed();
});
watcher.on('delete', ({ key }) => copy.delete(key.toString()));
has(copy.size);
