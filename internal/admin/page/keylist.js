// A list of keys that is loaded page by page.

import { complain, el, say } from './dom.js';
import { explain } from './api.js';
import { link } from './route.js';

const enough = 100; // entries that are loaded together

// KeyList is a list of keys with a button for more. A subclass has these members: page() loads a page
// and returns whether there may be more; summary() returns the text after loading; requests is how many
// pages are loaded together at most; busy is the text while loading, and onward that of the button.
export class KeyList {
  constructor(resource, on) {
    this.resource = resource;
    this.on = on; // refused is called with errors that another token may fix, loaded after new entries
    this.start = ''; // the key at which the next page begins
    this.entries = el('ul', { class: 'keys' });
    this.more = el('button', { type: 'button', hidden: '' });
    this.state = el('p', { class: 'hint', role: 'status' });
    this.error = el('p', { class: 'error', role: 'alert', hidden: '' });
    this.node = el('div', { class: 'level' }, this.entries, this.state, this.error, this.more);
    this.more.addEventListener('click', () => this.load());
  }

  // load shows more entries.
  async load() {
    this.more.hidden = true;
    complain(this.error);
    say(this.state, this.busy);
    const before = this.entries.childElementCount;
    this.rest = true;
    try {
      for (let n = 0; this.rest && n < this.requests && this.entries.childElementCount < before + enough; n++) this.rest = await this.page();
    } catch (error) {
      complain(this.error, explain(error));
      this.on.refused(error);
    }
    say(this.state, this.summary());
    say(this.more, this.error.hidden ? this.onward : 'Try again');
    this.more.hidden = !this.rest;
    this.on.loaded();
  }

  // add adds an entry for a key.
  add(key, text) {
    this.entries.append(el('li', {}, el('a', { href: link(this.resource, key), 'data-path': key }, text)));
  }
}
