// Search among the keys of a resource. The server finds the beginning of a key and labels. The
// page looks for a part of a key itself, in a limited number of objects at a time.

import { complain, el, say } from './dom.js';
import { count, plural } from './format.js';
import { explain, of, read } from './api.js';
import { link } from './route.js';

const pageSize = 200;
const enough = 100; // matches that are shown together
const requests = 10; // at most, for that

// Search shows the keys that match a text.
export class Search {
  // how is "prefix", "part" or "labels".
  constructor(resource, how, text, on) {
    this.resource = resource;
    this.how = how;
    this.text = text;
    this.on = on; // refused is called with errors that another token may fix, loaded after new entries
    this.start = how === 'prefix' ? text : '';
    this.searched = 0;
    this.entries = el('ul', { class: 'keys' });
    this.more = el('button', { type: 'button', hidden: '' });
    this.state = el('p', { class: 'hint', role: 'status' });
    this.error = el('p', { class: 'error', role: 'alert', hidden: '' });
    this.node = el('div', { class: 'level' }, this.state, this.entries, this.error, this.more);
    this.more.addEventListener('click', () => this.load());
    this.load();
  }

  // parameters returns the parameters of the next page.
  parameters() {
    // A visitor may have rights for a path only.
    const folder = this.how === 'prefix' ? this.text.slice(0, Math.max(0, this.text.lastIndexOf('/'))) : '';
    return {
      pageSize,
      ...(folder && { 'scope.prefix': folder }),
      ...(this.how === 'labels' && { labelSelector: this.text }),
      ...(this.start && { startKey: this.start }),
    };
  }

  // load searches on.
  async load() {
    this.more.hidden = true;
    complain(this.error);
    say(this.state, 'Searching');
    const before = this.entries.childElementCount;
    let rest = true;
    try {
      for (let n = 0; rest && n < requests && this.entries.childElementCount < before + enough; n++) rest = await this.page();
      this.more.hidden = !rest;
      say(this.more, 'Search on');
    } catch (error) {
      complain(this.error, explain(error));
      this.on.refused(error);
      this.more.hidden = false;
      say(this.more, 'Try again');
    }
    const found = plural(this.entries.childElementCount, 'match').replace('matchs', 'matches');
    this.on.loaded();
    if (!this.error.hidden && this.searched === 0) say(this.state, '');
    else say(this.state, rest ? `${found} so far, in ${plural(this.searched, 'object')}${this.left ? ` of ${count(this.searched + this.left)}` : ''}` : found);
  }

  // page searches one page. It returns whether there may be more.
  async page() {
    const answer = await read(of(this.resource, 'objects'), this.parameters());
    for (const { key } of answer.objects ?? []) {
      if (this.how === 'prefix' && !key.startsWith(this.text)) return false;
      this.start = `${key}\0`; // the smallest key after it
      this.searched++;
      if (this.how === 'part' && !key.includes(this.text)) continue;
      this.entries.append(el('li', {}, el('a', { href: link(this.resource, key), 'data-path': key }, key)));
    }
    this.left = this.how === 'part' ? Number(answer.remainingCount ?? 0) : 0;
    return Boolean(answer.nextPageToken);
  }
}
