// One object: its value and what the server knows about it.

import { $, complain, el, say } from './dom.js';
import { bytes, count, dateAndTime, plural, seconds, shorten, span } from './format.js';
import { code, explain, isAway, of, Outdated, read, rights } from './api.js';
import { authorOf, History, newest, signature, storedBy } from './history.js';
import { Recent } from './recent.js';
import { Receivers } from './receivers.js';
import { labelsOf, readable } from './value.js';

const most = 64 * 1024; // characters of a value that are shown at first

// The facts about an object: name, explanation, and value.
const facts = [
  ['Content type', 'The media type of the value', (o) => o.contentType],
  ['Size', 'Of the value as it is stored', (o) => o.size !== undefined && bytes(o.size)],
  ['Labels', 'Watches and searches can select objects by labels', (o) => labelsOf(o).join(', ')],
  ['Version', 'The number of writes since the object was created', (o) => count(o.version)],
  ['Changed at', 'The revision of the last write. Every write to etcd increases the revision by one', (o) => `revision ${o.modRevision}`],
  ['Created at', 'The revision of the first write', (o) => `revision ${o.createRevision}`],
  ['Written by', 'Who wrote the object last', (o) => o.last && (o.last.kind === 'KIND_PUT' ? authorOf(o.last) : 'another program')],
  ['Written', 'When the object was written last, by the clock of the server', (o) => o.last?.time && dateAndTime(new Date(o.last.time))],
  ['Message', 'Why, in the words of the writer', (o) => o.last?.message],
  ['Expires', 'etcd removes the object then, unless it is written again', (o) => o.hasTtl && (o.ttl ? `in ${span(seconds(o.ttl))}` : 'yes')],
];

// ObjectView shows an object.
export class ObjectView {
  constructor(refused, servers, rollback) {
    this.refused = refused; // called with errors that another token may fix
    this.rights = [];
    this.history = new History({ rollback });
    this.recent = new Recent();
    this.receivers = new Receivers(servers);
    $('object-reload').addEventListener('click', () => this.load());
  }

  // open shows an object.
  open(resource, key) {
    this.resource = resource;
    this.key = key;
    this.object = undefined;
    say($('object-title'), key);
    say($('object-state'), '');
    $('object').hidden = false;
    $('object-body').hidden = true;
    this.history.of(resource, key);
    this.recent.of(resource, key);
    this.receivers.of(resource, key);
    this.allow([]);
    return this.load();
  }

  close() {
    this.key = undefined;
    this.recent.stop();
    $('object').hidden = true;
  }

  // forget removes what an earlier token may have shown.
  forget() {
    this.show(undefined);
    this.allow([]);
    this.history.forget();
    this.recent.forget();
    this.receivers.forget();
    $('object-value').replaceChildren();
    $('object-facts').replaceChildren();
    say($('object-state'), '');
  }

  // allow shows the controls for what the visitor may do.
  allow(verbs) {
    this.rights = verbs;
    const { object } = this;
    $('object-edit').hidden = !verbs.includes('put') || object?.text === undefined;
    $('object-delete').hidden = !verbs.includes('delete') || !object;
    if (!verbs.includes('history')) $('history').hidden = true;
    $('recent').hidden = !verbs.includes('watch') || !verbs.includes('list');
    $('receivers').hidden = !verbs.includes('admin') || !object;
  }

  // trace shows who wrote or deleted the object last, and offers its history.
  async trace(current) {
    const { resource, key, object, rights: verbs } = this;
    if (!verbs.includes('history')) return;
    try {
      const last = await newest(resource, key);
      if (!current() || this.object !== object) return;
      $('history').hidden = false;
      this.history.again();
      if (object && last && (storedBy(last, object) || last.kind === 'KIND_GAP')) this.describe({ ...object, last });
      if (!object && last?.kind === 'KIND_DELETE') say($('object-state'), `This object does not exist. It was deleted by ${signature(last)}${last.message ? `: ${last.message}` : '.'}`);
    } catch (error) {
      if (!current() || error instanceof Outdated) return;
      // An error other than a missing history is shown when the history is opened.
      $('history').hidden = error.reason === 'NO_HISTORY';
    }
  }

  // load requests the object.
  async load() {
    const { resource, key } = this;
    if (key === undefined) {
      this.history.again(); // of a folder
      return;
    }
    const current = () => this.resource === resource && this.key === key;
    complain($('object-error'));
    try {
      const answer = await read(of(resource, 'objects', key));
      if (!current()) return;
      say($('object-state'), answer.old ? 'etcd does not answer. This is the last state that the server knows.' : '');
      this.show({ ...answer.object, ttl: answer.ttl });
      this.receivers.modRevision = answer.object.modRevision;
      const verbs = await rights(resource, key).catch(() => []);
      if (!current()) return;
      this.allow(verbs);
      await this.trace(current);
    } catch (error) {
      if (!current() || error instanceof Outdated) return;
      // The last value stays while the server does not answer.
      if (!isAway(error)) {
        this.show(undefined);
        this.allow([]);
      }
      if (error.code === code.notFound && error.reason === 'KEY_NOT_FOUND') {
        say($('object-state'), 'This object does not exist.');
        const verbs = await rights(resource, key).catch(() => []);
        if (!current()) return;
        this.allow(verbs);
        await this.trace(current);
        return;
      }
      complain($('object-error'), explain(error));
      this.refused(error);
    }
  }

  // show draws the object, or nothing if there is none.
  show(object) {
    this.object = object;
    $('object-body').hidden = !object;
    if (!object) return;
    const { text, note } = readable(object);
    say($('object-value'), shorten(text, most));
    const rest = text.length - most;
    $('object-all').hidden = rest <= 0;
    say($('object-all'), `Show the other ${plural(rest, 'character')}`);
    $('object-all').onclick = () => {
      say($('object-value'), text);
      $('object-all').hidden = true;
    };
    complain($('object-note'), note);
    this.describe(object);
  }

  // describe shows the facts about an object.
  describe(object) {
    const { size } = readable(object);
    const shown = facts.map(([name, title, of]) => [name, title, of({ ...object, size })]).filter(([, , value]) => value);
    $('object-facts').replaceChildren(...shown.map(([name, title, value]) => el('div', {}, el('dt', { title }, name), el('dd', {}, el('bdi', {}, value)))));
  }
}
