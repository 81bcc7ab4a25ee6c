import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshFor } from '../src/informer.js';

void test('a state is fresh for three intervals, or for two and two seconds', () => {
  assert.deepEqual([100, 1000, 2000, 10_000].map(freshFor), [2200, 4000, 6000, 30_000]);
});
