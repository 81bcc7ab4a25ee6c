// The changes of an object that the server remembers, and those that happen now: a watch on its
// key from the beginning of the window.

import { $, complain, el, say } from './dom.js';
import { clock, plural } from './format.js';
import { explain, get, isAway, of, watch } from './api.js';
import { differences } from './diff.js';
import { asText } from './value.js';

const most = 100; // changes shown
const between = 2000; // milliseconds between two attempts
const silence = 20_000; // milliseconds without a message until the server counts as gone

const types = { TYPE_ADDED: 'added', TYPE_MODIFIED: 'modified', TYPE_DELETED: 'deleted' };

function row(event, live) {
  const type = types[event.type] ?? 'event';
  const more = el('details', {}, el(
    'summary', {}, el('span', { class: 'type', 'data-type': type }, type), ` revision ${event.revision}`,
    ...(live ? [` at ${clock(new Date())}`] : []),
  ));
  more.addEventListener('toggle', () => {
    if (!more.open || more.childElementCount > 1) return;
    more.append(differences(event.previous ? asText(event.previous) : '', type === 'deleted' ? '' : asText(event.object ?? {})));
  });
  return el('li', {}, more);
}

// Recent shows the changes of one object while it is open.
export class Recent {
  constructor() {
    $('recent').addEventListener('toggle', () => {
      if ($('recent').open) this.start();
      else this.stop();
    });
  }

  // of selects an object.
  of(resource, key) {
    if (this.resource === resource && this.key === key) return;
    this.forget();
    this.resource = resource;
    this.key = key;
  }

  // forget removes everything.
  forget() {
    this.stop();
    $('recent').open = false;
    this.key = undefined;
    $('recent-list').replaceChildren();
    say($('recent-state'), '');
    complain($('recent-error'));
  }

  stop() {
    this.running?.abort();
    this.running = undefined;
  }

  start() {
    if (this.running) return;
    this.running = new AbortController();
    $('recent-list').replaceChildren();
    complain($('recent-error'));
    say($('recent-state'), 'Loading');
    void this.run(this.running.signal);
  }

  async run(signal) {
    const { resource, key } = this;
    let after; // the position at which the watch begins
    let oldest; // the revision at which the window begins
    let failed = false; // the last attempt
    try {
      const { position } = await get(of(resource, 'objects'), { 'scope.key': key, countOnly: true });
      after = { epoch: position.epoch, revision: 1 };
    } catch (error) {
      this.end(signal, error);
      return;
    }
    while (!signal.aborted) {
      try {
        let live = false;
        const parameters = {
          'scope.key': key, 'after.epoch': after.epoch, 'after.revision': after.revision,
          everyEvent: true, previousObject: true, bookmarkInterval: '5s', maxBatchDelay: '0.5s', 'subscriber.instance': 'status page',
        };
        if (failed) await new Promise((resolve) => setTimeout(resolve, between));
        failed = true; // or ended by the server, which resumes the watch as well
        for await (const message of watch(resource, parameters, silence, signal)) {
          if (signal.aborted) return;
          failed = false;
          complain($('recent-error'));
          after = message.position;
          const list = $('recent-list');
          list.prepend(...(message.events ?? []).map((e) => row(e, live)).reverse());
          while (list.childElementCount > most) list.lastElementChild.remove();
          if (message.kind === 'KIND_SYNCED') live = true;
          if (live) say($('recent-state'), `${list.childElementCount === most ? 'the last ' : ''}${plural(list.childElementCount, 'change')}${oldest ? ` after revision ${oldest}, where the memory of the server begins` : ''}`);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (isAway(error)) {
          complain($('recent-error'), explain(error));
          continue;
        }
        if (error.reason !== 'POSITION_EXPIRED' || oldest) {
          this.end(signal, error);
          return;
        }
        failed = false;
        oldest = error.metadata.oldest_revision;
        after = { ...after, revision: oldest };
      }
    }
  }

  // end shows why there are no more changes.
  end(signal, error) {
    if (signal.aborted) return;
    say($('recent-state'), '');
    complain($('recent-error'), explain(error));
    this.stop();
  }
}
