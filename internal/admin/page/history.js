// The history of an object or of a folder: who wrote what, when and why. The server keeps it if the resource is
// configured so.

import { $, complain, el, say } from './dom.js';
import { dateAndTime, plural } from './format.js';
import { explain, get, of, Outdated, rights } from './api.js';
import { differences } from './diff.js';
import { link } from './route.js';
import { asText } from './value.js';

const pageSize = 50; // writes that are loaded together
const pages = 5; // pages that are read at most to find one entry

// What happened, by the kind of the entry.
const kinds = {
  KIND_PUT: ['put', () => ''],
  KIND_DELETE: ['delete', () => ''],
  KIND_EXPIRED: ['expired', () => 'its time to live ended'],
  KIND_GAP: ['gap', (e) => `another program changed the key in etcd${Number(e.revision) ? `, at revision ${e.revision} or before` : ''}`],
  KIND_EARLIER: ['earlier', (e) => `the object${Number(e.revision) ? ` of revision ${e.revision}` : ''} is older than its history`],
};

const isWrite = (e) => e.kind === 'KIND_PUT' || e.kind === 'KIND_DELETE';

// authorOf returns the name of the writer, which may be anonymous.
export const authorOf = (e) => e.author || 'anonymous';

// signature returns who made a write, and when.
export const signature = (e) => `${authorOf(e)}, ${dateAndTime(new Date(e.time))}`;

// present returns the object that a key has now, or undefined if it has none.
export async function present(resource, key) {
  try {
    return (await get(of(resource, 'objects', key))).object;
  } catch (error) {
    if (error.reason === 'KEY_NOT_FOUND') return undefined;
    throw error;
  }
}

// newest returns the newest entry of a key, or undefined if there is none.
export const newest = async (resource, key) => (await get(of(resource, 'history'), { 'scope.key': key, pageSize: 1 })).entries?.[0];

// storedBy returns whether an entry, which is the newest of its key, is the write that stored an object. Objects with
// a time to live may have no entry. Encrypting an object again changes only its revision.
export const storedBy = (e, o) => e?.kind === 'KIND_PUT' && (e.revision === o.modRevision || (!o.hasTtl && Number(e.revision) < Number(o.modRevision)));

// stateOf returns the state of the key after an entry: the object, nothing if there was none, or why it is not known.
function stateOf(e) {
  if (!e) return { unknown: 'The history does not go further back.' };
  if (e.object) {
    const { text, data } = e.object;
    return text === undefined && data === undefined ? { unknown: 'The server cannot decrypt the value.' } : { object: e.object };
  }
  if (e.kind === 'KIND_DELETE' || e.kind === 'KIND_EXPIRED') return {};
  if (e.kind === 'KIND_PUT') return { unknown: 'The history does not keep the values of objects with a time to live.' };
  return { unknown: 'The history does not have this value: another program wrote it, or it is older.' };
}

const textOf = (object) => (object ? asText(object, true) : '');

const labelsAsText = (o) => JSON.stringify(Object.entries(o.labels ?? {}).sort());

// sameContent reports whether two objects, or none, have the same content.
function sameContent(a, b) {
  if (!a || !b) return a === b;
  return a.text === b.text && a.data === b.data && (a.contentType ?? '') === (b.contentType ?? '') && labelsAsText(a) === labelsAsText(b);
}

// same reports whether a rollback from one object, or none, to another one changes nothing. It writes no time to live.
export const same = (now, target) => sameContent(now, target) && !(now?.hasTtl && !target.hasTtl);

// compared returns an element that shows how two objects differ. undefined stands for no object.
export function compared(before, after) {
  const [a, b] = [textOf(before), textOf(after)];
  const equal = sameContent(before, after);
  if (before && after && Boolean(before.hasTtl) !== Boolean(after.hasTtl)) {
    const life = el('p', { class: 'hint' }, after.hasTtl ? 'The object then has a time to live.' : 'The object then has no time to live.');
    return el('div', {}, ...(equal ? [] : [compared({ ...before, hasTtl: false }, { ...after, hasTtl: false })]), life);
  }
  if (equal) return el('p', { class: 'hint' }, 'There is no difference.');
  if (a === b) return el('p', { class: 'hint' }, 'Only white space differs, or bytes that are not shown.');
  return differences(a, b);
}

// difference is compared for states that may be unknown.
function difference(before, after) {
  const unknown = before.unknown ?? after.unknown;
  return unknown ? el('p', { class: 'hint' }, unknown) : compared(before.object, after.object);
}

// follows reports whether a write replaced the result of the write before it in the history. An object that was encrypted
// again has a later revision.
function follows(newer, older) {
  const replaced = Number(newer.replacedRevision ?? 0);
  return older.kind === 'KIND_DELETE' ? replaced === 0 : replaced >= Number(older.revision);
}

// stateBefore returns the state that an entry has followed, if before is the entry before it.
function stateBefore(e, before) {
  if (before && isWrite(e) && isWrite(before) && !follows(e, before)) return { unknown: 'The history does not have what this write replaced.' };
  return stateOf(before);
}

// quoted returns a word of a shell command.
const quoted = (word) => (/^[\w./:@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// History shows the history while it is open. on.rollback is called to restore the state after an entry.
export class History {
  constructor(on) {
    this.on = on;
    $('history').addEventListener('toggle', () => $('history').open && this.again());
    $('history-more').addEventListener('click', () => this.load());
  }

  // of selects an object, or with a key that is undefined the folder with a path.
  of(resource, key, path) {
    if (this.resource === resource && this.key === key && this.path === path) return;
    this.forget();
    [this.resource, this.key, this.path] = [resource, key, path];
  }

  // forget removes everything.
  forget() {
    $('history').open = false;
    this.resource = undefined;
    this.clear();
  }

  clear() {
    this.shown = {}; // identifies the answers that are waited for
    this.pageToken = '';
    this.writes = new Map(); // by key, the last write that is shown
    this.count = 0;
    $('history-list').replaceChildren();
    $('history-more').hidden = true;
    say($('history-state'), '');
    complain($('history-error'));
  }

  // again shows the newest entries.
  again() {
    this.clear();
    if ($('history').open && this.resource !== undefined) void this.load();
  }

  scope() {
    if (this.key !== undefined) return { 'scope.key': this.key };
    return this.path ? { 'scope.prefix': this.path.slice(0, -1) } : {};
  }

  // load shows one more page.
  async load() {
    const { shown, resource } = this;
    $('history-more').hidden = true;
    complain($('history-error'));
    say($('history-state'), 'Loading');
    try {
      const answer = await get(of(resource, 'history'), { ...this.scope(), pageSize, ...(this.pageToken && { pageToken: this.pageToken }) });
      if (shown !== this.shown) return;
      this.pageToken = answer.nextPageToken ?? '';
      $('history-list').append(...(answer.entries ?? []).map((e) => this.row(e)));
    } catch (error) {
      if (shown !== this.shown || error instanceof Outdated) return;
      if (error.reason === 'NO_HISTORY') {
        say($('history-state'), 'This resource has no history.');
        return;
      }
      complain($('history-error'), explain(error));
    }
    const failed = !$('history-error').hidden;
    const more = Boolean(this.pageToken) || failed;
    $('history-more').hidden = !more;
    say($('history-more'), failed ? 'Try again' : 'Show earlier writes');
    say($('history-state'), failed && !this.count ? '' : this.count || more ? `${plural(this.count, 'write')}${more ? ' so far' : ''}` : 'The history has no writes here.');
  }

  // row returns an entry. What happened in it is loaded when it is opened.
  row(e) {
    const { resource } = this;
    const above = this.writes.get(e.key);
    const [name, about] = kinds[e.kind] ?? ['other', () => ''];
    const facts = isWrite(e)
      ? [`revision ${e.revision}`, signature(e), e.transactionWrites > 1 && `one of ${plural(e.transactionWrites, 'key')} of a transaction`, e.hasTtl && 'with a time to live']
      : [about(e)];
    if (isWrite(e)) {
      this.writes.set(e.key, e);
      this.count++;
    }
    const more = el(
      'details', {},
      el(
        'summary', {}, el('span', { class: 'type', 'data-type': name }, name), ' ',
        ...[this.key === undefined && e.key, ...facts].filter(Boolean).flatMap((fact, i) => [i > 0 ? ' · ' : '', el('bdi', {}, fact)]),
        ...(e.message ? [el('small', { class: 'message' }, e.message)] : []),
      ),
    );
    more.addEventListener('toggle', () => {
      if (!more.open || more.childElementCount > 1) return;
      const content = el('div', { class: 'entry' }, el('p', { class: 'hint', role: 'status' }, 'Loading'));
      more.append(content);
      void this.open(resource, e, above, content).catch((error) => {
        if (error instanceof Outdated) return;
        content.replaceChildren(el('p', { class: 'error', role: 'alert' }, explain(error)));
        more.addEventListener('toggle', () => content.remove(), { once: true }); // try again when it is opened again
      });
    });
    return el('li', {}, more);
  }

  // open shows what an entry changed, what has changed since, and the button to restore its state. above is the next
  // write of the key.
  async open(resource, e, above, content) {
    const { shown } = this;
    const [found, before] = await this.find(resource, e, above);
    const verbs = await rights(resource, e.key);
    const now = verbs.includes('get') ? { object: await present(resource, e.key) } : { unknown: 'You may not read the present value.' };
    if (shown !== this.shown) return;
    const state = stateOf(found);
    const target = state.object;
    const parts = [];
    if (e.message?.includes('\n')) parts.push(el('p', { class: 'message' }, e.message));
    if (this.key === undefined) parts.push(el('p', {}, el('a', { href: link(resource, e.key) }, 'Open the object')));
    parts.push(el('h4', {}, isWrite(e) ? 'What this write changed' : 'Compared with the write before'));
    const first = stateBefore(found, before);
    if (first.unknown && !state.unknown && !before) parts.push(el('p', { class: 'hint' }, first.unknown), ...(target ? [differences('', textOf(target))] : []));
    else parts.push(difference(first, state));
    parts.push(el('h4', {}, 'What has changed since'), difference(state, now));
    const restorable = !state.unknown && !now.unknown && (target ? !target.opaque : e.kind === 'KIND_DELETE') && !same(now.object, target);
    if (restorable && verbs.includes(target ? 'put' : 'delete')) {
      const button = el('button', { type: 'button', class: 'rollback' }, target ? 'Roll back to this' : 'Roll back: delete the object');
      button.addEventListener('click', () => this.on.rollback({ resource, key: e.key, revision: e.revision, target, rights: verbs }));
      parts.push(button);
    }
    if (this.key === undefined && isWrite(e)) {
      parts.push(el(
        'p', { class: 'hint' }, 'To go back to this revision with all objects here, run ',
        el('code', {}, `fanoutctl rollback ${quoted(resource)} ${quoted(this.path || '/')} --to ${e.revision}`), ', which shows the changes first.',
      ));
    }
    content.replaceChildren(...parts);
  }

  // find returns an entry with its value, and the entry before it.
  async find(resource, e, above) {
    const begin = isWrite(e) ? e.revision : above?.revision;
    let pageToken = '';
    const entries = [];
    for (let n = 0; n === 0 || (pageToken && n < pages); n++) {
      const answer = await get(of(resource, 'history'), {
        'scope.key': e.key, values: true, pageSize: 2, ...(begin && { revision: begin }), ...(pageToken && { pageToken }),
      });
      entries.push(...(answer.entries ?? []));
      pageToken = answer.nextPageToken ?? '';
      // What is not a write follows the write above it, and may have no revision of its own.
      const from = isWrite(e) || !above ? 0 : entries.findIndex((x) => isWrite(x) && x.revision === above.revision) + 1;
      const at = entries.findIndex((x, i) => i >= from && x.kind === e.kind && x.revision === e.revision);
      if (at >= 0 && (at + 1 < entries.length || !pageToken)) return [entries[at], entries[at + 1]];
    }
    throw new Error('The history has changed meanwhile: reload it.');
  }
}
