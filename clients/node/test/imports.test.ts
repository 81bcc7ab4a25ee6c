// The source files import each other in one direction. An import of a type counts: who reads one file needs the other.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';

const folder = new URL('../../src/', import.meta.url);

/** importsOf returns the source files that a file imports. */
function importsOf(file: string): string[] {
  const { importedFiles } = ts.preProcessFile(readFileSync(new URL(file, folder), 'utf8'));
  return importedFiles.flatMap(({ fileName }) => /^\.\/(\w+)\.js$/.exec(fileName)?.[1] ?? []).map((name) => `${name}.ts`);
}

/** circleIn returns files of which each imports the next one, and the last one the first. */
function circleIn(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): readonly string[] => {
    if (path.includes(file)) return path.slice(path.indexOf(file));
    if (done.has(file)) return [];
    for (const next of imports.get(file) ?? []) {
      const circle = visit(next, [...path, file]);
      if (circle.length > 0) return circle;
    }
    done.add(file);
    return [];
  };
  return [...imports.keys()].map((file) => visit(file, [])).find((circle) => circle.length > 0) ?? [];
}

void test('no source files import each other in a circle', () => {
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  const imports = new Map(files.map((file) => [file, importsOf(file)]));
  assert.ok(imports.get('client.ts')?.includes('connection_pool.ts')); // the test sees imports
  assert.deepEqual(circleIn(imports), []);
});

void test('a circle is found', () => {
  const imports = new Map([
    ['a', ['b']],
    ['b', ['c', 'd']],
    ['c', []],
    ['d', ['e']],
    ['e', ['b']],
  ]);
  assert.deepEqual(circleIn(imports), ['b', 'd', 'e']);
});
