// One card per resource.

import { $, complain, el, say, keyed } from './dom.js';
import { count, plural, rate, bytes, seconds, span, unknown } from './format.js';

const remembered = 60; // rates, two seconds apart

const states = {
  STATE_LOADING: ['loading', 'Being read from etcd; nothing is served yet'],
  STATE_SERVING: ['serving', 'Served, and follows etcd'],
  STATE_CUT_OFF: ['cut off', 'Served as it was when etcd was last heard of'],
};

const all = (...parts) => parts.filter(Boolean).join(' · ');

function lag(r) {
  const heard = r.age !== undefined && `heard ${span(seconds(r.age))} ago`;
  return all(r.lagRevisions === undefined ? 'etcd does not answer' : plural(r.lagRevisions, 'revision'), heard);
}

function past(r) {
  const w = r.window;
  if (!w) return r.cached ? unknown : 'none, nothing is cached';
  return all(plural(w.changes ?? 0, 'change'), span(seconds(w.span)), bytes(w.bytes ?? 0));
}

// The facts of a card: name, value, and whether it takes a whole line.
const facts = [
  ['Revision', (r) => count(r.position?.revision)],
  ['Objects', (r) => count(r.objects)],
  ['Watchers', (r) => count(r.watchers ?? 0)],
  ['Distinct filters', (r) => count(r.interests ?? 0)],
  ['Behind etcd', lag, true],
  ['Window', past, true],
  ['Rules', (r) => r.validation?.hash ?? '', true], // validation; hidden if there are none
];

// Rates computes the change rate of each resource from two answers of the same server.
class Rates {
  constructor() {
    this.server = undefined;
    this.at = undefined;
    this.last = new Map();
    this.past = new Map();
  }

  note(answer) {
    const at = seconds(answer.server?.uptime);
    if (answer.server?.id !== this.server) {
      this.last.clear();
      this.past.clear();
    }
    for (const r of answer.resources ?? []) {
      const before = this.last.get(r.name);
      const past = this.past.get(r.name) ?? [];
      if (before !== undefined && r.changes !== undefined && at > this.at) {
        past.push((r.changes - before) / (at - this.at));
        if (past.length > remembered) past.shift();
      }
      this.past.set(r.name, past);
      this.last.set(r.name, r.changes);
    }
    this.server = answer.server?.id;
    this.at = at;
  }

  of(name) {
    return this.past.get(name) ?? [];
  }
}

const svg = 'http://www.w3.org/2000/svg';

// Spark draws the recent rates.
function spark() {
  const drawing = document.createElementNS(svg, 'svg');
  drawing.setAttribute('class', 'spark');
  drawing.setAttribute('viewBox', `0 0 ${remembered - 1} 24`);
  drawing.setAttribute('preserveAspectRatio', 'none');
  drawing.setAttribute('aria-hidden', 'true');
  const area = document.createElementNS(svg, 'path');
  const line = document.createElementNS(svg, 'path');
  area.setAttribute('class', 'area');
  line.setAttribute('class', 'line');
  drawing.append(area, line);
  const draw = (rates) => {
    if (rates.length < 2) {
      area.setAttribute('d', '');
      line.setAttribute('d', '');
      return;
    }
    const highest = Math.max(1, ...rates);
    const first = remembered - rates.length;
    const points = rates.map((r, i) => `${first + i} ${(22.5 - (r / highest) * 20).toFixed(2)}`).join('L');
    line.setAttribute('d', `M${points}`);
    area.setAttribute('d', `M${first} 24L${points}L${remembered - 1} 24Z`);
  };
  return { drawing, draw };
}

function makeCard(r, actions) {
  const parts = {
    state: el('span', { class: 'badge' }),
    rate: el('strong'),
    unit: el('span'),
    spark: spark(),
    facts: facts.map(() => el('dd')),
    codec: el('span', { class: 'hint' }),
    undecryptable: el('p', { class: 'error', hidden: '' }),
    opaque: el('p', { class: 'warning', hidden: '' }),
    rules: el('p', { class: 'error', hidden: '' }),
  };
  const button = (text, act) => {
    const b = el('button', { type: 'button', 'aria-label': `${text} ${r.name}` }, text);
    b.addEventListener('click', () => act(r.name));
    return b;
  };
  const card = el(
    'article',
    { class: 'panel card', 'aria-label': r.name },
    el('header', {}, el('h3', {}, r.name), parts.codec, parts.state),
    el('div', { class: 'pace' }, el('p', {}, parts.rate, ' ', parts.unit), parts.spark.drawing),
    el('dl', {}, ...facts.map(([title, , line], i) => el('div', line ? { class: 'line' } : {}, el('dt', {}, title), parts.facts[i]))),
    parts.undecryptable,
    parts.opaque,
    parts.rules,
    el('footer', {}, button('Browse', actions.browse), button('Watchers', actions.watchers), button('Tail', actions.tail)),
  );
  card.parts = parts;
  return card;
}

function updateCard(card, r, rates) {
  const { parts } = card;
  const [state, meaning] = states[r.state] ?? ['unknown', ''];
  say(parts.state, state);
  parts.state.dataset.state = state;
  parts.state.title = meaning;
  say(parts.rate, r.cached ? rate(rates.at(-1)) : '');
  say(parts.unit, r.cached ? 'changes/s' : 'changes are not counted');
  parts.spark.drawing.toggleAttribute('hidden', !r.cached);
  parts.spark.draw(rates);
  facts.forEach(([, show], i) => {
    const text = show(r);
    say(parts.facts[i], text);
    parts.facts[i].parentElement.hidden = text === '';
  });
  complain(parts.rules, r.validation?.problem && `The validation file cannot be used, and earlier rules are in force: ${r.validation.problem}`);
  say(parts.codec, r.codec);
  parts.codec.title = all(`codec ${r.codec}`, r.encrypted && `encrypted with key ${r.primaryKeyId}`, r.fields?.length && `fields ${r.fields.join(', ')}`);
  const undecryptable = Number(r.undecryptableObjects ?? 0);
  complain(parts.undecryptable, undecryptable > 0 && `${plural(undecryptable, 'object')} cannot be decrypted with the keys of this server`);
  const opaque = Number(r.opaqueValues ?? 0);
  complain(parts.opaque, opaque > 0 && `${plural(opaque, 'value')} could not be read so far`);
  parts.opaque.title = 'The codec could not decode them, or they could not be decrypted';
}

const sum = (all, of) => all.reduce((n, r) => n + Number(of(r) ?? 0), 0);

// Resources shows the answers of ListResources.
export class Resources {
  constructor(actions) {
    this.actions = actions;
    this.rates = new Rates();
  }

  // clear removes everything.
  clear() {
    this.rates = new Rates();
    for (const id of ['resources', 'sums', 'server']) $(id).replaceChildren();
  }

  // show shows an answer, and the number of watchers of all servers.
  show(answer, watchers) {
    const all = answer.resources ?? [];
    this.rates.note(answer);
    keyed($('resources'), all, (r) => r.name, (r) => makeCard(r, this.actions), (card, r) => updateCard(card, r, this.rates.of(r.name)));
    const paces = all.map((r) => this.rates.of(r.name).at(-1)).filter((n) => n !== undefined);
    const sums = [
      ['Changes/s', rate(paces.length ? paces.reduce((a, b) => a + b) : undefined)],
      ['Objects', count(sum(all, (r) => r.objects))],
      ['Watchers', count(watchers)],
      ['Distinct filters', count(sum(all, (r) => r.interests))],
    ];
    keyed(
      $('sums'), sums, ([title]) => title,
      ([title]) => el('div', {}, el('dt', {}, title), el('dd')),
      (node, [, value]) => say(node.lastChild, value),
    );
    const s = answer.server ?? {};
    say($('server'), [s.version, s.uptime && `up ${span(seconds(s.uptime))}`, s.id].filter(Boolean).join(' · '));
  }
}
