// One row for each of the watchers with the largest lag. There may be thousands of
// watchers; the page asks the server only for those it shows.

import { $, el, say, keyed } from './dom.js';
import { count, bytes, plural, seconds, span, unknown } from './format.js';
import { link } from './route.js';

const steps = [20, 100, 1000]; // rows

// described describes the selection of a watcher.
export function described(q) {
  const scope = q.scope?.key ?? (q.scope?.prefix ? `${q.scope.prefix.replace(/\/$/, '')}/…` : 'all objects');
  const more = [
    q.labelSelector && `labels ${q.labelSelector}`,
    q.fieldSelector && `fields ${q.fieldSelector}`,
    q.delivery === 'DELIVERY_LATEST' && 'latest only',
    q.everyEvent && 'every event',
    q.omitValues && 'no values',
    q.previousObject && 'previous objects',
  ];
  return [scope, more.filter(Boolean).join(' · ')];
}

// placeOf returns the address of what a watch covers.
function placeOf({ resource, scope }) {
  return link(resource, scope?.key ?? (scope?.prefix ? `${scope.prefix.replace(/\/$/, '')}/` : ''));
}

function stateOf(w) {
  if (w.blocked) return ['blocked', 'A message waits for the network: the client does not read, or not fast enough'];
  if (w.state === 'STATE_CATCHING_UP') return ['catching up', 'Receives a snapshot or the events that it has missed'];
  return ['live', 'Receives events as they happen'];
}

// who names the client of a watcher: by the name that it has given itself, or else by its
// identity, or else by its address.
export function who(w) {
  const names = [w.subscriber?.instance, w.identity, w.peer].filter(Boolean);
  return [names[0] ?? unknown, [...names.slice(1), w.userAgent].filter(Boolean).join(' · ')];
}

// labels lists the labels that the client has given itself, one in a line.
const labels = (w) => Object.entries(w.subscriber?.labels ?? {}).map(([name, value]) => `${name}=${value}`);

// behind returns how many events wait for a watcher, and for how long.
function behind(w) {
  if (Number(w.position?.revision ?? 0) === 0) return ['no snapshot yet', ''];
  if (w.lagRevisions === undefined) return [unknown, ''];
  const lag = seconds(w.lag);
  const none = Number(w.lagEvents ?? w.lagRevisions) === 0;
  if (none && !w.lagIsMinimum) return ['none', ''];
  const since = `for ${w.lagIsMinimum ? 'more than ' : ''}${span(lag)}`;
  if (none) return ['all objects', since]; // a new epoch: revisions cannot be compared
  return [w.lagEvents !== undefined ? plural(w.lagEvents, 'event') : plural(w.lagRevisions, 'revision'), since];
}

// concerns reports whether the error of a watcher may be about an object.
const concerns = (w, key) => !w.failedKeys?.length || w.failedKeys.includes(key);

// applied returns how long events have waited to be applied, or the error that the client has
// reported. Most clients report nothing. With an object, errors of others do not matter.
export function applied(w, object) {
  if (w.error && object && !concerns(w, object.key)) {
    const attempted = Number(w.attempted?.revision ?? 0);
    return attempted >= Number(object.modRevision) ? ['up to date', `up to revision ${attempted}`] : applied({ ...w, error: undefined });
  }
  if (w.error) return ['failed', w.error.message || `code ${w.error.code}`];
  if (w.appliedLag === undefined) return ['not reported', ''];
  const lag = seconds(w.appliedLag);
  return [lag === 0 ? 'up to date' : `${span(lag)} late`, `up to revision ${w.applied.revision}`];
}

// reported describes the last report in full.
function reported(w) {
  return [
    w.applied && `applied up to revision ${w.applied.revision}`,
    w.error && w.appliedLag !== undefined && `${span(seconds(w.appliedLag))} late`,
    w.error && `failed at ${new Date(w.errorTime).toLocaleString()}`,
    w.failedKeys?.length && `cannot apply ${w.failedKeys.join(', ')}`,
    w.error?.message,
  ].filter(Boolean).join('\n');
}

// details describes a watcher in full, one fact in a line.
function details(w) {
  return [
    w.subscriber?.instance, ...labels(w), w.identity && `identity ${w.identity}`, w.peer, w.userAgent, `watch ${w.id}`, w.server && `server ${w.server}`,
    `began at ${new Date(w.since).toLocaleString()}`, `state: ${stateOf(w)[1]}`, reported(w) || 'applied position: not reported',
  ].filter(Boolean).join('\n');
}

// The cells of a row: column, text, and a smaller text below.
const columns = [
  ['Client', who],
  ['Resource', (w) => [w.request.resource, w.server]],
  ['Watches', (w) => described(w.request)],
  ['State', (w) => [stateOf(w)[0]]],
  ['Lag', behind],
  ['Applied', applied],
  ['Sent', (w) => [bytes(w.bytes ?? 0), plural(w.messages ?? 0, 'message')]],
  ['Age', (w) => [span((Date.now() - new Date(w.since)) / 1000)]],
];

function makeRow() {
  const parts = columns.map(([name]) => [name === 'Watches' ? el('a') : el('span'), el('small')]);
  const more = el('p');
  const row = el('tr', {}, ...columns.map(([name], i) => (
    el(i ? 'td' : 'th', { 'data-name': name, ...(i ? {} : { scope: 'row' }) }, el('div', {}, ...parts[i]))
  )));
  row.cells[0].firstChild.append(el('details', {}, el('summary', {}, 'Details'), more));
  row.parts = parts;
  row.more = more;
  return row;
}

function updateRow(row, w) {
  columns.forEach(([, show], i) => {
    const [text, more] = show(w);
    say(row.parts[i][0], text);
    say(row.parts[i][1], more ?? '');
  });
  const [state, meaning] = stateOf(w);
  const badge = row.parts[3][0];
  badge.className = 'badge';
  badge.dataset.state = state;
  badge.title = meaning;
  row.parts[2][0].setAttribute('href', placeOf(w.request));
  say(row.more, details(w));
  row.cells[4].dataset.quiet = ['none', unknown].includes(row.parts[4][0].textContent);
  row.cells[5].dataset.quiet = ['up to date', 'not reported'].includes(row.parts[5][0].textContent);
  row.cells[5].dataset.failed = Boolean(w.error);
}

// rank orders the watchers of several servers as each server does: blocked ones first, then those without a
// snapshot, then by lag, of which only a minimum may be known.
function rank(w) {
  if (w.blocked) return 0;
  if (Number(w.position?.revision ?? 0) === 0) return 1;
  return w.lagIsMinimum ? 2 : 3;
}

const byLag = (a, b) => rank(a) - rank(b) || (seconds(b.lag) ?? 0) - (seconds(a.lag) ?? 0) || new Date(a.since) - new Date(b.since);

// Watchers requests and shows the watchers of all servers.
export class Watchers {
  constructor(servers) {
    this.servers = servers;
    this.step = 0;
  }

  // clear removes everything.
  clear() {
    $('watchers-rows').replaceChildren();
    for (const id of ['watchers-count', 'watchers-none']) say($(id), '');
    say($('watchers-failed'), '0');
    $('watchers-more').hidden = true;
  }

  // ask fills the table. It throws the server's error.
  async ask() {
    const resource = $('watchers-resource').value;
    const failing = $('watchers-failing').checked;
    const size = steps[this.step];
    const answers = await this.servers.everywhere('v1/watchers', { order: 'ORDER_LAG', pageSize: size, ...(resource && { resource }), ...(failing && { failing }) });
    // The visitor may have changed the selection meanwhile.
    if (resource !== $('watchers-resource').value || failing !== $('watchers-failing').checked) return this.ask();
    const sum = (of) => answers.reduce((n, { answer }) => n + Number(of(answer) ?? 0), 0);
    let all = answers.flatMap(({ server, answer }) => (answer.watchers ?? []).map((w) => ({ ...w, server })));
    if (answers.length > 1) all = all.sort(byLag).slice(0, size);
    const total = sum((answer) => answer.total);
    keyed($('watchers-rows'), all, (w) => w.id, makeRow, updateRow);
    say($('watchers-count'), total === 0 ? '' : all.length < total ? `${count(all.length)} of ${count(total)}, those that are furthest behind` : `${count(total)}, furthest behind first`);
    say($('watchers-failed'), count(sum((answer) => answer.failing)));
    $('watchers-none').hidden = total > 0;
    say($('watchers-none'), failing ? 'No watcher reports an error.' : 'There are no watchers.');
    $('watchers-more').hidden = all.length >= total || this.step === steps.length - 1;
  }

  more() {
    this.step = Math.min(this.step + 1, steps.length - 1);
  }
}
