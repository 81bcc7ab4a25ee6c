// Values of objects as texts for readers.

import { bytes, count } from './format.js';

const longest = 4 * 1024 * 1024; // characters of a text after it has been indented
const deepest = 100; // levels that are indented
const dumped = 1024; // bytes of a binary value that are shown

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// faultOf returns why a text is not JSON, or undefined if it is.
export function faultOf(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    return error.message;
  }
  return undefined;
}

// indent returns a JSON text with one member on each line, or undefined if it is not JSON or too
// large. It keeps the tokens as they are: JSON.parse would round large numbers.
function indent(text) {
  if (faultOf(text) !== undefined) return undefined;
  let depth = 0;
  let opened = false; // the previous token opened an object or array
  let out = '';
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [token] of text.matchAll(tokens)) {
    if (token === '}' || token === ']') {
      depth--;
      if (!opened) out += line();
    } else if (opened) {
      out += line();
    }
    opened = token === '{' || token === '[';
    if (opened) depth++;
    out += token === ':' ? ': ' : token;
    if (token === ',') out += line();
    if (depth > deepest || out.length > longest) return undefined;
  }
  return out;
}

// placeOf returns where the value at a JSON pointer begins in a JSON text, as the offsets of its first token. For a value
// that is missing it is the object or array that lacks it, and undefined for a text that is not JSON.
export function placeOf(text, pointer) {
  if (faultOf(text) !== undefined) return undefined;
  const path = pointer.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
  const around = []; // the objects and arrays around the token, with the name or the index of their present member
  let found;
  for (const { 0: token, index } of text.matchAll(tokens)) {
    const parent = around.at(-1);
    if (token === '}' || token === ']') {
      around.pop();
    } else if (token === ',') {
      parent.name = parent.list ? parent.name + 1 : undefined;
    } else if (token !== ':') {
      if (parent?.name === undefined && parent) {
        parent.name = JSON.parse(token);
        continue;
      }
      const leads = !parent || (parent.leads && String(parent.name) === path[around.length - 1]);
      if (leads) found = [index, index + token.length];
      if (leads && around.length === path.length) return found;
      if (token === '{' || token === '[') around.push({ list: token === '[', name: token === '[' ? 0 : undefined, leads });
    }
  }
  return found;
}

// isJSON reports whether values of a content type must be JSON, as the server decides it.
export const isJSON = (contentType) => /^\s*(application\/json|[^;]*\+json)\s*(;|$)/i.test(contentType ?? '');

// binary returns the bytes of a value in base64.
const binary = (data) => Uint8Array.from(atob(data), (c) => c.charCodeAt(0));

// dump shows bytes as hexadecimal numbers and as ASCII characters.
function dump(all) {
  const rows = [];
  for (let at = 0; at < Math.min(all.length, dumped); at += 8) {
    const row = Array.from(all.subarray(at, at + 8));
    const hex = row.map((b) => b.toString(16).padStart(2, '0')).join(' ');
    const ascii = row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('');
    rows.push(`${at.toString(16).padStart(4, '0')}  ${hex.padEnd(23)}  ${ascii}`);
  }
  return rows.join('\n');
}

// readable returns the value of an object as a text, its size, and a note about it.
export function readable(o) {
  if (o.data !== undefined) {
    const all = binary(o.data);
    return { text: dump(all), size: all.length, note: all.length > dumped ? `binary; these are the first ${count(dumped)} bytes of ${bytes(all.length)}` : 'binary' };
  }
  if (o.text === undefined) {
    return { text: '', note: o.opaque ? 'The server cannot decrypt the value.' : 'There is no value.' };
  }
  const indented = isJSON(o.contentType) ? indent(o.text) : undefined;
  return {
    text: indented ?? o.text,
    size: new Blob([o.text]).size,
    note: o.opaque ? 'The server cannot decode the value. These are the stored bytes.' : '',
  };
}

// labelsOf returns the labels of an object, as in a selector.
export const labelsOf = (o) => Object.entries(o.labels ?? {}).map(([name, value]) => `${name}=${value}`);

// asText returns an object as a text that can be compared: its value, and with its content type and
// labels if they are wanted.
export function asText(o, all) {
  const { text } = readable(o);
  if (!all) return text;
  const type = o.contentType || 'default';
  return [`content type: ${type}`, ...labelsOf(o).sort().map((label) => `label: ${label}`), '', text].join('\n');
}
