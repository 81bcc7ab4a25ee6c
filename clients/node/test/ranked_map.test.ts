import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RankedMap } from '../src/ranked_map.js';

void test('the first entry is the one with the lowest rank', () => {
  const ranked = new RankedMap<string>();
  const model = new Map<string, number>();
  const pick = (n: number) => Math.floor(Math.random() * n);
  for (let n = 0; n < 20_000; n++) {
    const key = `${pick(200)}`;
    if (pick(3) === 0) {
      assert.equal(ranked.delete(key), model.delete(key));
    } else {
      const rank = pick(1000);
      ranked.set(key, rank, `${key} ${rank}`);
      model.set(key, rank);
    }
    assert.equal(ranked.size, model.size);
    const lowest = model.size > 0 ? Math.min(...model.values()) : undefined;
    assert.equal(ranked.first?.rank, lowest);
    assert.equal(ranked.get(key), model.has(key) ? `${key} ${model.get(key)}` : undefined);
  }
  assert.deepEqual([...ranked.keys()].sort(), [...model.keys()].sort());
});
