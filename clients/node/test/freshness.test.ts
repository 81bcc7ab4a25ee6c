import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshFor } from '../src/freshness.js';
import { silenceAfter } from '../src/watcher.js';

void test('a state is fresh for three intervals, or for two and two seconds', () => {
  assert.deepEqual([100, 1000, 2000, 10_000].map(freshFor), [2200, 4000, 6000, 30_000]);
});

void test('the age of a message counts as silence', () => {
  for (const { age, bookmarks, want } of [
    { age: 0, bookmarks: 10_000, want: 30_000 },
    { age: 20_000, bookmarks: 10_000, want: 10_000 },
    { age: 28_000, bookmarks: 10_000, want: 5000 }, // at least
    { age: 31_000, bookmarks: 10_000, want: 30_000 }, // it is stale already
    { age: 0, bookmarks: 100, want: 300 },
    { age: 2000, bookmarks: 100, want: 300 },
  ]) {
    assert.equal(silenceAfter(age, bookmarks), want);
  }
});
