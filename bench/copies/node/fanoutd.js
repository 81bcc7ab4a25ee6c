// Keeps a copy with the client of fanoutd.

import { Client, textOf } from '../../../clients/node/build/src/index.js';
import { address, changed, has } from './progress.js';

const client = new Client(address, { insecure: true });
const copy = client.resource('bench').informer({ decode: textOf });
copy.addHandler({ update: changed });
await copy.start().waitForSync();
has(copy.size);
