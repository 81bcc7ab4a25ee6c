// Checks that the declarations of the package show only what its entry exports: nothing of how the client works.

import { readFileSync } from 'node:fs';

const folder = process.argv[2];
const read = (name) => readFileSync(`${folder}/${name}.d.ts`, 'utf8').replace(/\/\*[^]*?\*\//g, '');
const entry = read('index');
const seen = new Set(['index']);
for (const name of seen) {
  const text = read(name);
  for (const [, next] of text.matchAll(/(?:from|import\() ?'\.\/([\w/]+)\.js'/g)) seen.add(next);
  if (name === 'index') continue;
  for (const [, declared] of text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|const|enum|function|interface|type) (\w+)/gm)) {
    if (!new RegExp(`\\b${declared}\\b`).test(entry)) throw new Error(`${name}.d.ts shows ${declared}, which is not exported`);
  }
}
if (seen.size < 10) throw new Error('no declarations were found');
