// The watches that receive an object.

import { $, complain, el, say } from './dom.js';
import { count, plural } from './format.js';
import { explain, get, of, Outdated } from './api.js';
import { applied, described, who } from './watchers.js';

const pages = 5; // pages of watches that are examined
const selectors = 50; // distinct selectors that the server is asked about
const shown = 100;

// covers reports whether a scope has a key in it.
function covers(scope, key) {
  if (scope?.key) return scope.key === key;
  return !scope?.prefix || key.startsWith(`${scope.prefix.replace(/\/$/, '')}/`);
}

// Receivers lists the watches when it is opened.
export class Receivers {
  constructor(servers) {
    this.servers = servers;
    $('receivers').addEventListener('toggle', () => $('receivers').open && this.load());
    $('receivers-reload').addEventListener('click', () => this.load());
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
    $('receivers').open = false;
    this.key = undefined;
    $('receivers-list').replaceChildren();
    say($('receivers-state'), '');
    complain($('receivers-error'));
  }

  // matcher returns a function that reports whether an object matches the selectors of a watch. The
  // server decides.
  matcher(resource, key) {
    const known = new Map();
    return ({ labelSelector = '', fieldSelector = '' }) => {
      if (!labelSelector && !fieldSelector) return true;
      const id = JSON.stringify([labelSelector, fieldSelector]);
      if (!known.has(id) && known.size < selectors) {
        known.set(id, get(of(resource, 'objects'), {
          'scope.key': key, countOnly: true, ...(labelSelector && { labelSelector }), ...(fieldSelector && { fieldSelector }),
        }).then((a) => Number(a.remainingCount ?? 0) > 0));
      }
      return known.get(id) ?? false;
    };
  }

  async load() {
    const { resource, key } = this;
    complain($('receivers-error'));
    say($('receivers-state'), 'Loading');
    try {
      let examined = 0;
      let total = 0;
      const matches = this.matcher(resource, key);
      const found = [];
      const origins = [undefined, ...this.servers.answering.map((s) => s.origin)];
      for (const origin of origins) {
        let pageToken = '';
        for (let n = 0; n === 0 || (pageToken && n < pages); n++) {
          const answer = await get('v1/watchers', { resource, pageSize: 1000, ...(pageToken && { pageToken }) }, { origin });
          const all = answer.watchers ?? [];
          examined += all.length;
          if (n === 0) total += Number(answer.total ?? 0);
          pageToken = answer.nextPageToken;
          for (const w of all) if (covers(w.request.scope, key) && await matches(w.request)) found.push(w);
        }
      }
      if (this.resource !== resource || this.key !== key) return;
      $('receivers-list').replaceChildren(...found.slice(0, shown).map((w) => {
        const [name, more] = who(w);
        const [what, how] = described(w.request);
        const [state, detail] = applied(w, { key, modRevision: this.modRevision });
        return el(
          'li', {}, el('strong', {}, name), el('small', {}, more), el('small', {}, [what, how].filter(Boolean).join(' · ')),
          el('small', { 'data-failed': state === 'failed' }, el('span', {}, `applied: ${state}`), detail ? ` · ${detail}` : ''),
        );
      }));
      const among = examined < total ? ` among the first ${count(examined)}` : '';
      const where = origins.length > 1 ? plural(origins.length, 'server') : 'this server';
      say($('receivers-state'), `${plural(found.length, 'watch').replace('watchs', 'watches')} of ${where}${among}`);
    } catch (error) {
      if (error instanceof Outdated) return;
      say($('receivers-state'), '');
      complain($('receivers-error'), explain(error));
    }
  }
}
