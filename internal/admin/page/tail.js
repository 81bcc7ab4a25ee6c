// The events of a resource as they happen: a watch like any other, which resumes
// where it was when it is interrupted.

import { $, el, say, complain } from './dom.js';
import { bytes, clock, count, shorten } from './format.js';
import { code, explain, Refusal, watch } from './api.js';

const most = 200; // events that are kept
const longest = 16 * 1024; // characters of a value that are kept
const brief = 200; // of them before somebody wants to see more
const bookmarks = 5; // seconds
const silence = 4 * bookmarks * 1000; // milliseconds after which the server is taken for gone

const types = { TYPE_ADDED: 'added', TYPE_MODIFIED: 'modified', TYPE_DELETED: 'deleted' };

// What trying again does not help against.
const final = [code.invalid, code.notFound, code.denied, code.unimplemented, code.unauthenticated];

// cut returns the beginning of a long text. It is a copy, because a part of a text
// keeps the whole of it in memory.
function cut(text) {
  if (text.length <= longest) return text;
  return new TextDecoder().decode(new TextEncoder().encode(shorten(text, longest)));
}

// kept returns what is kept of an event.
function kept(event) {
  if (event.gap) return event;
  const o = event.object ?? {};
  const value = o.text ?? o.data ?? '';
  const size = o.data === undefined ? new Blob([value]).size : (value.length * 3) / 4 - (value.match(/=*$/)[0].length);
  return {
    type: types[event.type] ?? 'event',
    key: o.key ?? '',
    revision: o.modRevision,
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

function row(e) {
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
      el('dl', {}, ...e.facts.map(([name, v]) => el('div', {}, el('dt', {}, name), el('dd', {}, v)))),
      el('pre', { tabindex: '0', 'aria-label': `Value of ${e.key}` }, e.value),
    );
  });
  return el('li', {}, more);
}

// Tail follows one resource at a time.
export class Tail {
  constructor(refused) {
    this.refused = refused; // is told of what another token may help against
    this.waiting = []; // what is not shown yet, the newest last
    this.unseen = 0; // how many came while it was paused
    this.paused = false;
    this.running = undefined; // ends the present watch
    this.denied = false; // it ended because of the token
    $('tail-form').addEventListener('submit', (e) => {
      e.preventDefault();
      this.follow();
    });
    $('tail-form').addEventListener('change', () => this.running && this.follow());
    $('tail-stop').addEventListener('click', () => this.stop('Stopped'));
    $('tail-pause').addEventListener('click', () => this.pause());
    $('tail-clear').addEventListener('click', () => this.clear());
  }

  // of follows all of a resource.
  of(resource) {
    $('tail-resource').value = resource;
    for (const name of ['prefix', 'labels', 'fields']) $(`tail-${name}`).value = '';
    this.follow();
  }

  // retry begins anew if there was no permission before.
  retry() {
    if (this.denied) this.follow();
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

  // follow follows what the form says. It does nothing if it does so already.
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
    this.running = new AbortController();
    $('tail-follow').hidden = true;
    $('tail-stop').hidden = false;
    $('tail-pause').disabled = false;
    $('tail-events').hidden = false;
    this.run(resource, parameters, this.running.signal);
  }

  // run keeps a watch going until the signal, or until there is no use in it.
  async run(resource, parameters, signal) {
    let position; // after the last event that was taken
    let failures = 0;
    while (!signal.aborted) {
      const begin = position ? { 'after.epoch': position.epoch, 'after.revision': position.revision ?? 0 } : { fromNow: true };
      try {
        let held = []; // events of which the rest is still to come
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
        failures++; // a server that is draining, or the time limit of watches: resume
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

  // take keeps what has come for the next time that something is drawn.
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

  // show draws what has come.
  show() {
    if (this.paused || this.waiting.length === 0) return;
    const list = $('tail-events');
    const rows = this.waiting.map((e) => (e.gap ? el('li', { class: 'gap' }, e.gap) : row(e)));
    this.waiting = [];
    list.prepend(...rows.reverse());
    while (list.childElementCount > most) list.lastElementChild.remove();
  }
}
