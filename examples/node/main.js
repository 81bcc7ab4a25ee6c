// Follows a part of a resource and prints each event as a line of JSON.

import { parseArgs } from 'node:util';
import { Damaged, File } from './saved.js';
import { State } from './state.js';
import { Refused, Subscriber } from './subscriber.js';

const usage = `usage: node main.js [--state FILE] [--bookmarks SECONDS] TARGET RESOURCE [PREFIX]

  TARGET     address of the server, such as 127.0.0.1:7420
  RESOURCE   resource to watch
  PREFIX     watch only what is below this path
  --state    save the state in this file, and begin with it
  --bookmarks
             interval of bookmarks while nothing happens (default 10)
`;

// The least time in milliseconds between two writes of the state file. An older state does
// no harm: the server then sends a little more after a restart.
const saveInterval = 1000;

function printLine(what, details) {
  process.stdout.write(`${JSON.stringify({ what, ...details })}\n`);
}

// value returns the value of an object: text, bytes, or nothing if it is unknown.
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

// Revisions are strings. The output has numbers, which are exact up to 2^53.
const number = (revision) => Number(revision);

// follow subscribes until the signal is aborted and returns the exit code.
async function follow({ target, resource, prefix, path, bookmarks, signal }) {
  let state = new State();
  let file = null; // the state is not saved
  if (path) {
    file = new File(path, resource, prefix);
    try {
      state = file.load();
    } catch (error) {
      if (!(error instanceof Damaged)) throw error;
      printLine('damaged', { why: error.message });
    }
  }
  const progress = () => ({
    objects: state.objects.size,
    revision: state.position && number(state.position.revision),
  });
  printLine('begin', progress());

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
    onChange(what, key, object) {
      printLine(what, { key, ...(object && { revision: number(object.mod_revision), ...value(object) }) });
      save(saveInterval);
    },
    onEvent(what, details) {
      const where = ['synced', 'bookmark', 'draining'].includes(what) ? progress() : {};
      printLine(what, { ...details, ...where });
      save(saveInterval);
    },
  });
  try {
    await subscriber.run(signal);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    printLine('refused', { why: error.message });
    return 1;
  }
  save(0);
  printLine('end', progress());
  return 0;
}

function readArguments() {
  const options = { state: { type: 'string' }, bookmarks: { type: 'string', default: '10' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [target, resource, prefix = '', ...rest] = positionals;
  const bookmarks = 1000 * Number(values.bookmarks);
  if (!resource || rest.length || !(bookmarks > 0)) throw new Error('wrong arguments');
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
