// The status page: the answers of ListResources and ListWatchers, refreshed at intervals,
// the objects of a resource, and its tail.

import { $, complain, options, say } from './dom.js';
import { clock } from './format.js';
import { code, explain, get, Refusal, token } from './api.js';
import { Loop } from './loop.js';
import { Resources } from './resources.js';
import { Watchers } from './watchers.js';
import { Tail } from './tail.js';
import { Browse } from './browse.js';
import { go } from './route.js';

const tail = new Tail(refused);
const browse = new Browse(refused);
const watchers = new Watchers();
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
  resources.show(answer);
}, judge);
const ofWatchers = new Loop(() => watchers.ask(), judge);

// The requests and the views that show their answers.
const shown = [
  { loop: ofResources, error: 'resources-error', places: ['sums', 'resources'] },
  { loop: ofWatchers, error: 'watchers-error', places: ['watchers-rows'] },
];

// judge shows whether the data is current.
function judge() {
  for (const { loop, error, places } of shown) {
    complain($(error), loop.error && explain(loop.error));
    if (loop.error) refused(loop.error);
    // Without the right to list the resources, a visitor may know the name of one.
    if (loop === ofResources) $('browse-open').hidden = loop.error?.code !== code.denied;
    for (const place of places) $(place).classList.toggle('stale', !loop.fresh);
  }
  const loops = shown.map((s) => s.loop);
  if (loops.every((l) => l.fresh)) tell('live', 'Live');
  else if (loops.every((l) => l.answered)) tell('stale', `Stale: as it was at ${clock(new Date(Math.min(...loops.map((l) => l.answered))))}`);
  else if (loops.some((l) => l.error)) tell('stale', loops.some((l) => l.fresh) ? 'Incomplete' : 'No answer yet');
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

function use(text) {
  if (text) token.set(text);
  else token.forget();
  offered = undefined;
  $('token-text').value = '';
  openToken(false);
  ofResources.now();
  ofWatchers.now();
  tail.retry();
  browse.retry();
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
