// The status page: the answers of ListResources and ListWatchers, refreshed at intervals,
// the objects of a resource, and its tail.

import { $, complain, onlyChosen, options, say } from './dom.js';
import { clock } from './format.js';
import { code, explain, get, Refusal, token } from './api.js';
import { Loop } from './loop.js';
import { Resources } from './resources.js';
import { Servers } from './servers.js';
import { Cluster } from './cluster.js';
import { Watchers } from './watchers.js';
import { Tail } from './tail.js';
import { Browse } from './browse.js';
import { go } from './route.js';

const tail = new Tail(refused);
const servers = new Servers();
const browse = new Browse(refused, servers);
const watchers = new Watchers(servers);
const resources = new Resources({
  browse: (name) => go(name),
  watchers: (name) => {
    $('watchers-resource').value = name;
    ofWatchers.now();
    $('watchers').scrollIntoView();
  },
  tail: (name) => {
    tail.of(name);
    $('tail').scrollIntoView();
  },
});

const ofResources = new Loop(async () => {
  const answer = await get('v1/resources', { measureLag: true });
  const names = (answer.resources ?? []).map((r) => r.name);
  options($('watchers-resource'), names);
  options($('tail-resource'), names);
  options($('browse-resource'), names);
  browse.codecs = Object.fromEntries((answer.resources ?? []).map((r) => [r.name, r.codec]));
  browse.unchecked = (answer.resources ?? []).filter((r) => !r.validation).map((r) => r.name);
  servers.heard(answer);
  resources.show(answer, servers.total);
}, judge);
const cluster = new Cluster();
const ofCluster = new Loop(() => cluster.ask(), () => {});
const ofServers = new Loop(() => servers.ask(), () => {});
const ofWatchers = new Loop(() => watchers.ask(), judge);

// The requests and the views that show their answers.
const shown = [
  { loop: ofResources, error: 'resources-error', places: ['sums', 'resources'], view: resources },
  { loop: ofWatchers, error: 'watchers-error', places: ['watchers-rows'], view: watchers },
];

// judge shows whether the data is current.
function judge() {
  for (const { loop, error, places, view } of shown) {
    complain($(error), loop.error && explain(loop.error));
    const lacksRights = loop.error instanceof Refusal && loop.error.wantsToken;
    if (lacksRights) {
      refused(loop.error);
      view.clear(); // the visitor may not see it any more
    }
    if (loop === ofResources && loop.error) servers.heard(undefined, loop.error);
    // Without the right to list the resources, a visitor may know the name of one.
    if (loop === ofResources) $('browse-open').hidden = loop.error?.code !== code.denied;
    for (const place of places) $(place).classList.toggle('stale', !loop.fresh && !lacksRights);
  }
  const loops = shown.map((s) => s.loop);
  const errors = loops.map((l) => l.error).filter(Boolean);
  if (loops.every((l) => l.fresh)) tell('live', 'Live');
  else if (errors.some((e) => e.code === code.unauthenticated)) tell('refused', token.get() ? 'Token refused' : 'Token needed');
  else if (errors.some((e) => e.code === code.denied)) tell('refused', 'Missing rights');
  else if (loops.every((l) => l.answered)) tell('stale', `Stale: as it was at ${clock(new Date(Math.min(...loops.map((l) => l.answered))))}`);
  else if (errors.length > 0) tell('stale', loops.some((l) => l.fresh) ? 'Incomplete' : 'No answer yet');
  else tell('waiting', 'Waiting for the first answer');
}

function tell(state, text) {
  $('freshness').dataset.state = state;
  say($('freshness'), text);
}
setInterval(judge, 1000);

// Tokens.

function openToken(open) {
  $('token').hidden = !open;
  $('token-open').setAttribute('aria-expanded', open);
}

// The form opens once for each refused token, and stays closed if the visitor closes it. A
// refusal of an earlier token is ignored.
let offered;

function refused(error) {
  if (!(error instanceof Refusal) || !error.wantsToken || error.token !== token.get() || offered === error.token) return;
  offered = error.token;
  openToken(true);
}

// use replaces the token, and with it everything that the old one has shown.
function use(text) {
  if (browse.editor.changed && !window.confirm('Discard your changes?')) return;
  if (text) token.set(text);
  else token.forget();
  offered = undefined;
  $('token-text').value = '';
  openToken(false);
  servers.forget();
  for (const { loop, view } of shown) {
    view.clear();
    loop.forget();
  }
  ofServers.forget();
  cluster.forget();
  ofCluster.forget();
  tail.again();
  browse.again();
  $('watchers-resource').value = '';
  for (const id of ['watchers-resource', 'tail-resource', 'browse-resource']) onlyChosen($(id));
  judge();
}

$('token-open').addEventListener('click', () => {
  openToken($('token').hidden);
  if (!$('token').hidden) $('token-text').focus();
});
$('token').addEventListener('submit', (e) => {
  e.preventDefault();
  use($('token-text').value.trim());
});
$('token-forget').addEventListener('click', () => use(''));

// Start.

$('watchers-resource').addEventListener('change', () => ofWatchers.now());
$('watchers-failing').addEventListener('change', () => ofWatchers.now());
$('watchers-more').addEventListener('click', () => {
  watchers.more();
  ofWatchers.now();
});
browse.follow(false);
