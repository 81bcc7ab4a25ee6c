// The events of a resource as they happen. It is an ordinary watch that resumes at its
// position after an interruption.

import { $, el, say, complain } from './dom.js';
import { bytes, clock, count, shorten } from './format.js';
import { link } from './route.js';
import { code, explain, Refusal, watch } from './api.js';

const most = 200; // events kept
const longest = 16 * 1024; // characters kept of a value
const brief = 200; // characters shown before the visitor expands the value
const bookmarks = 5; // seconds
const silence = 4 * bookmarks * 1000; // milliseconds without a message until the server counts as gone

const types = { TYPE_ADDED: 'added', TYPE_MODIFIED: 'modified', TYPE_DELETED: 'deleted' };

// Errors that a retry does not fix.
const final = [code.invalid, code.notFound, code.denied, code.unimplemented, code.unauthenticated];

// cut returns the beginning of a long string as a copy, because a substring keeps the
// whole string in memory.
function cut(text) {
  if (text.length <= longest) return text;
  return new TextDecoder().decode(new TextEncoder().encode(shorten(text, longest)));
}

// kept returns the parts of an event that are kept.
function kept(event) {
  if (event.gap) return event;
  const o = event.object ?? {};
  const value = o.text ?? o.data ?? '';
  const size = o.data === undefined ? new Blob([value]).size : (value.length * 3) / 4 - (value.match(/=*$/)[0].length);
  return {
    type: types[event.type] ?? 'event',
    key: o.key ?? '',
    revision: event.revision,
    value: cut(value),
    size,
    isText: o.data === undefined,
    facts: [
      ['Content type', o.contentType],
      ['Labels', Object.entries(o.labels ?? {}).map(([name, v]) => `${name}=${v}`).join(', ')],
      ['Version', o.version],
      ['Created at', o.createRevision],
      ['Size', `${bytes(size)}${value.length > longest ? ', of which only the beginning is kept here' : ''}`],
      ['Note', o.opaque && 'could not be decoded'],
    ].filter(([, v]) => v),
    at: new Date(),
  };
}

function row(e, resource) {
  const beginning = e.isText ? shorten(e.value, brief).replace(/\s+/g, ' ') : `binary, ${bytes(e.size)}`;
  const more = el('details', {}, el(
    'summary', {},
    el('time', { datetime: e.at.toISOString() }, clock(e.at)),
    el('span', { class: 'type', 'data-type': e.type }, e.type),
    el('code', { class: 'key' }, e.key),
    el('code', { class: 'value' }, beginning),
    el('span', { class: 'revision', title: 'revision' }, count(e.revision)),
  ));
  more.addEventListener('toggle', () => {
    if (!more.open || more.childElementCount > 1) return;
    more.append(
      el('p', { class: 'jump' }, el('a', { href: link(resource, e.key) }, 'Browse this object')),
      el('dl', {}, ...e.facts.map(([name, v]) => el('div', {}, el('dt', {}, name), el('dd', {}, v)))),
      el('pre', { tabindex: '0', 'aria-label': `Value of ${e.key}` }, e.value),
    );
  });
  return el('li', {}, more);
}

// Tail follows one resource at a time.
export class Tail {
  constructor(refused) {
    this.refused = refused; // called with errors that another token may fix
    this.waiting = []; // events not shown yet, newest last
    this.unseen = 0; // events received while paused
    this.paused = false;
    this.running = undefined; // ends the current watch
    this.denied = false; // the watch ended because of the token
    $('tail-form').addEventListener('submit', (e) => {
      e.preventDefault();
      this.follow();
    });
    $('tail-form').addEventListener('change', () => this.running && this.follow());
    $('tail-stop').addEventListener('click', () => this.stop('Stopped'));
    $('tail-pause').addEventListener('click', () => this.pause());
    $('tail-clear').addEventListener('click', () => this.clear());
  }

  // of follows a whole resource.
  of(resource) {
    $('tail-resource').value = resource;
    for (const name of ['prefix', 'labels', 'fields']) $(`tail-${name}`).value = '';
    this.follow();
  }

  // again forgets what an earlier token has shown. It goes on with the new one, also if permission was missing
  // before.
  again() {
    const goesOn = this.running || this.denied;
    this.stop('Events of a resource as they happen.');
    this.clear();
    complain($('tail-error'));
    if (goesOn) this.follow();
    else $('tail-resource').value = '';
  }

  stop(why) {
    this.running?.abort();
    this.running = undefined;
    $('tail-follow').hidden = false;
    $('tail-stop').hidden = true;
    say($('tail-state'), why);
  }

  clear() {
    this.waiting = [];
    this.unseen = 0;
    $('tail-events').replaceChildren();
    this.label();
  }

  pause() {
    this.paused = !this.paused;
    this.unseen = 0;
    this.label();
    this.show();
  }

  label() {
    say($('tail-pause'), !this.paused ? 'Pause' : this.unseen ? `Resume (${count(this.unseen)} new)` : 'Resume');
  }

  // follow follows the selection of the form, unless it already does.
  follow() {
    const field = (name) => $(`tail-${name}`).value.trim();
    const resource = field('resource');
    const parameters = { everyEvent: true, bookmarkInterval: `${bookmarks}s`, maxBatchDelay: '0.1s' };
    if (field('prefix')) parameters['scope.prefix'] = field('prefix');
    if (field('labels')) parameters.labelSelector = field('labels');
    if (field('fields')) parameters.fieldSelector = field('fields');
    const wanted = JSON.stringify([resource, parameters]);
    if (this.running && this.wanted === wanted) return;
    if (!resource) {
      this.stop('There is no resource to follow');
      return;
    }
    this.stop('Connecting');
    this.paused = false;
    this.clear();
    complain($('tail-error'));
    this.denied = false;
    this.wanted = wanted;
    this.resource = resource;
    this.running = new AbortController();
    $('tail-follow').hidden = true;
    $('tail-stop').hidden = false;
    $('tail-pause').disabled = false;
    $('tail-events').hidden = false;
    this.run(resource, parameters, this.running.signal);
  }

  // run keeps a watch running until the signal, or until an error that a retry does not fix.
  async run(resource, parameters, signal) {
    let position; // of the last event taken
    let failures = 0;
    while (!signal.aborted) {
      const begin = position ? { 'after.epoch': position.epoch, 'after.revision': position.revision ?? 0 } : { fromNow: true };
      try {
        let held = []; // events of an incomplete revision
        for await (const message of watch(resource, { ...parameters, ...begin }, silence, signal)) {
          if (signal.aborted) return;
          failures = 0;
          position = message.position;
          complain($('tail-error'));
          say($('tail-state'), `Following ${resource}`);
          held.push(...(message.events ?? []));
          if (message.partial) continue;
          this.take(held);
          held = [];
        }
        failures++; // the server drains, or the time limit was reached: resume
      } catch (error) {
        if (signal.aborted) return;
        failures++;
        if (error instanceof Refusal && final.includes(error.code)) {
          this.denied = error.wantsToken;
          complain($('tail-error'), explain(error));
          this.stop('Ended');
          if (error.wantsToken) this.refused(error);
          return;
        }
        complain($('tail-error'), explain(error));
        if (error instanceof Refusal && error.code === code.outOfRange) {
          position = undefined;
          this.take([{ gap: `Events are missing here: ${explain(error)}` }]);
        }
      }
      say($('tail-state'), 'Interrupted, connecting again');
      const wait = Math.min(10_000, 250 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  // take keeps events until the next drawing.
  take(events) {
    if (events.length === 0) return;
    this.waiting.push(...events.slice(-most).map(kept));
    this.waiting.splice(0, Math.max(0, this.waiting.length - most));
    if (this.paused) {
      this.unseen += events.length;
      this.label();
      return;
    }
    if (!this.drawing) {
      this.drawing = true;
      requestAnimationFrame(() => {
        this.drawing = false;
        this.show();
      });
    }
  }

  // show draws the new events.
  show() {
    if (this.paused || this.waiting.length === 0) return;
    const list = $('tail-events');
    const rows = this.waiting.map((e) => (e.gap ? el('li', { class: 'gap' }, e.gap) : row(e, this.resource)));
    this.waiting = [];
    list.prepend(...rows.reverse());
    while (list.childElementCount > most) list.lastElementChild.remove();
  }
}
