// The servers over the same etcd. Each knows only its own watchers, so the page asks all that the setting
// status-page-servers names. Without the setting it shows one server, and says so.

import { $, el, keyed, say } from './dom.js';
import { plural, seconds, span } from './format.js';
import { explain, get, Refusal } from './api.js';

const patience = 5000; // milliseconds for the answer of another server

const listed = document.querySelector('meta[name="servers"]').content.split(' ').filter((origin) => origin && origin !== location.origin);

const nameOf = (origin) => new URL(origin).host;

// stateOf returns the state of a server from the states of its resources.
function stateOf(answer) {
  const states = (answer.resources ?? []).map((r) => r.state);
  if (states.includes('STATE_CUT_OFF')) return 'cut off';
  if (states.includes('STATE_LOADING')) return 'loading';
  return 'serving';
}

const watchersOf = (answer) => (answer.resources ?? []).reduce((n, r) => n + Number(r.watchers ?? 0), 0);

function makeServer({ origin }) {
  const parts = { state: el('span', { class: 'badge' }), more: el('small') };
  const name = origin ? el('a', { href: `${origin}/` }, nameOf(origin)) : el('span', {}, location.host);
  const node = el('li', {}, parts.state, name, parts.more);
  node.parts = parts;
  return node;
}

function updateServer({ parts }, { origin, answer, error }) {
  const refused = error instanceof Refusal && error.wantsToken;
  const state = answer ? stateOf(answer) : refused ? 'refused' : error ? 'no answer' : 'waiting';
  say(parts.state, state);
  parts.state.dataset.state = state;
  const facts = answer && [
    !origin && 'this server', plural(watchersOf(answer), 'watcher'), answer.server?.version,
    answer.server?.uptime && `up ${span(seconds(answer.server.uptime))}`,
  ].filter(Boolean).join(' · ');
  say(parts.more, facts || (error ? explain(error) : ''));
}

// Servers knows which servers answer.
export class Servers {
  constructor() {
    this.forget();
  }

  // forget drops all answers, because they were for another token.
  forget() {
    this.id = undefined; // of this server
    this.own = {};
    this.others = listed.map((origin) => ({ origin }));
    this.show();
  }

  // heard takes the answer of this server, or its error.
  heard(answer, error) {
    this.id = answer?.server?.id ?? this.id;
    this.own = { answer, error };
    this.show();
  }

  // ask asks the other servers.
  async ask() {
    const { others } = this;
    await Promise.all(others.map(async (s) => {
      try {
        s.answer = await get('v1/resources', {}, { origin: s.origin, patience });
        s.error = undefined;
      } catch (error) {
        s.answer = undefined;
        s.error = error;
      }
    }));
    if (this.others === others) this.show();
  }

  // answering returns the other servers that answer. A second address of this server is none.
  get answering() {
    return this.others.filter((s) => s.answer && s.answer.server?.id !== this.id);
  }

  // total returns the number of watchers of all servers that answer.
  get total() {
    return [this.own, ...this.answering].reduce((n, s) => n + (s.answer ? watchersOf(s.answer) : 0), 0);
  }

  // everywhere sends a request to all servers that answer, and returns the answers with the names of the
  // servers. It throws only the error of this server.
  async everywhere(path, parameters) {
    const others = this.answering.map(({ origin }) => get(path, parameters, { origin, patience })
      .then((answer) => ({ server: nameOf(origin), answer }), () => undefined));
    const own = await get(path, parameters);
    const answers = await Promise.all(others);
    return [{ server: listed.length > 0 ? location.host : undefined, answer: own }, ...answers.filter(Boolean)];
  }

  show() {
    const shown = this.others.filter((s) => !s.answer || s.answer.server?.id !== this.id);
    $('servers').hidden = listed.length === 0;
    keyed($('servers'), [this.own, ...shown], (s) => s.origin ?? '', makeServer, updateServer);
    const missing = shown.length - this.answering.length;
    say($('servers-note'), listed.length === 0
      ? `This page shows one server, ${location.host}. Other servers over the same etcd have watchers of their own.`
      : `Watchers are those of all servers${missing ? ' that answer' : ''}. Everything else is as ${location.host} has it.`);
  }
}
