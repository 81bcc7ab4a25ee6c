// Completes dist/, which `tsc` has filled with CommonJS. Each entry of the package gets an ES module that exports the same
// objects, so that a program that imports and requires the package has one class FanoutError.

import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));
writeFileSync('dist/package.json', '{ "type": "commonjs" }\n');
for (const entry of Object.values(exports)) {
  if (!entry.import) continue;
  const common = entry.require.default.replace('./dist/', './');
  const names = Object.keys(require(entry.require.default)).join(', ');
  writeFileSync(entry.import.default, `export { ${names} } from '${common}';\n`);
  writeFileSync(entry.import.types, `export * from '${common}';\n`);
}
