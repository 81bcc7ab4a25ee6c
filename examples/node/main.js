// Follows a part of a resource and prints a line of JSON for whatever happens.

import { parseArgs } from 'node:util';
import { Damaged, File } from './saved.js';
import { State } from './state.js';
import { Refused, Subscriber } from './subscriber.js';

const usage = `usage: node main.js [--state FILE] [--bookmarks SECONDS] TARGET RESOURCE [PREFIX]

  TARGET     where fanoutd is, such as 127.0.0.1:7420
  RESOURCE   the resource to watch
  PREFIX     only what is below this path
  --state    keep the state in this file, and begin with it
  --bookmarks
             how often the server speaks when nothing happens (default 10)
`;

// Milliseconds between two writes of the file, at least. An older state is no mistake:
// resuming takes a little longer.
const saveInterval = 1000;

function tell(what, details) {
  process.stdout.write(`${JSON.stringify({ what, ...details })}\n`);
}

// value is that of an object, which is a text, bytes or nothing.
function value(object) {
  switch (object.value) {
    case 'text':
      return { text: object.text };
    case 'data':
      return { data: object.data.toString('base64') };
    default:
      return {};
  }
}

// Revisions are strings. The lines have numbers, which are exact up to 2^53.
const number = (revision) => Number(revision);

// follow subscribes until the signal is aborted and returns the exit code.
async function follow({ target, resource, prefix, path, bookmarks, signal }) {
  let state = new State();
  let file = null; // nothing is kept
  if (path) {
    file = new File(path, resource, prefix);
    try {
      state = file.load();
    } catch (error) {
      if (!(error instanceof Damaged)) throw error;
      tell('damaged', { why: error.message });
    }
  }
  const here = () => ({
    objects: state.objects.size,
    revision: state.position && number(state.position.revision),
  });
  tell('begin', here());

  let savedAt = -Infinity;
  const save = (interval) => {
    if (file && performance.now() - savedAt >= interval) {
      file.save(state);
      savedAt = performance.now();
    }
  };
  const subscriber = new Subscriber({
    target,
    request: { resource, scope: prefix ? { prefix } : null },
    state,
    bookmarks,
    changed(what, key, object) {
      tell(what, { key, ...(object && { revision: number(object.mod_revision), ...value(object) }) });
      save(saveInterval);
    },
    noticed(what, details) {
      const place = ['synced', 'bookmark', 'draining'].includes(what) ? here() : {};
      tell(what, { ...details, ...place });
      save(saveInterval);
    },
  });
  try {
    await subscriber.run(signal);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    tell('refused', { why: error.message });
    return 1;
  }
  save(0);
  tell('end', here());
  return 0;
}

function readArguments() {
  const options = { state: { type: 'string' }, bookmarks: { type: 'string', default: '10' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [target, resource, prefix = '', ...rest] = positionals;
  const bookmarks = 1000 * Number(values.bookmarks);
  if (!resource || rest.length || !(bookmarks > 0)) throw new Error('these are not the arguments');
  return { target, resource, prefix, path: values.state, bookmarks };
}

let given;
try {
  given = readArguments();
} catch (error) {
  process.stderr.write(`${error.message}\n${usage}`);
  process.exit(2);
}
const end = new AbortController();
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => end.abort());
process.exitCode = await follow({ ...given, signal: end.signal });
