// Keeps a copy of the objects below a prefix, and prints its changes.
//
//     node examples/node/subscribe.js SERVER RESOURCE PREFIX STATE_FILE

import { Client, textOf } from '@fanoutd/client';

const [server, resource, prefix, path] = process.argv.slice(2);
const client = new Client(server, { insecure: true });
const informer = client.resource(resource).informer({
  prefix,
  decode: textOf,
  lastKnownGood: { path, maxBytes: 64 << 20 },
});
informer.addHandler({
  add: (item) => console.log('added', item.key, item.value),
  update: (_, item) => console.log('modified', item.key, item.value),
  delete: (item) => console.log('deleted', item.key, ''),
});
process.once('SIGINT', () => void client.close());
informer.start();
