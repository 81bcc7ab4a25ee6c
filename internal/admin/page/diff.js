// Differences between two texts, line by line.

import { el } from './dom.js';
import { plural } from './format.js';

const largest = 1_000_000; // pairs of lines that are compared
const context = 3; // unchanged lines shown around a change

// compare returns the lines of both texts in order, each with "-", "+" or " " before it. It finds
// a longest common subsequence of the lines between the first and the last change.
export function compare(before, after) {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = (lines) => lines.map((line) => [' ', line]);
  return [...same(a.slice(0, start)), ...middle(x, y), ...same(a.slice(a.length - end))];
}

function middle(x, y) {
  if (x.length * y.length > largest) return [...x.map((line) => ['-', line]), ...y.map((line) => ['+', line])];
  // common[i * width + j] is the length of the longest common subsequence of the lines from i and j on.
  const width = y.length + 1;
  const common = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      lines.push([' ', x[i++]]);
      j++;
    } else if (j === y.length || (i < x.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      lines.push(['-', x[i++]]);
    } else {
      lines.push(['+', y[j++]]);
    }
  }
  return lines;
}

// differences returns an element that shows what has changed between two texts.
export function differences(before, after) {
  const lines = compare(before, after);
  const near = (i) => lines.slice(Math.max(0, i - context), i + context + 1).some(([sign]) => sign !== ' ');
  const pre = el('pre', { class: 'diff', tabindex: '0', role: 'region', 'aria-label': 'Changes' });
  for (let i = 0; i < lines.length; i++) {
    let hidden = 0;
    while (i + hidden < lines.length && !near(i + hidden)) hidden++;
    if (hidden > 0) {
      pre.append(el('span', { class: 'skipped' }, `${plural(hidden, 'unchanged line')}\n`));
      i += hidden - 1;
      continue;
    }
    const [sign, line] = lines[i];
    pre.append(el(sign === '-' ? 'del' : sign === '+' ? 'ins' : 'span', {}, `${sign} ${line}\n`));
  }
  return pre;
}
