// The keys of a resource as a tree of folders. The server has no folders: a level is read page
// by page, and the rest of a folder that does not fit into a page is skipped.

import { complain, el, say } from './dom.js';
import { count } from './format.js';
import { explain, get, of, read } from './api.js';
import { link } from './route.js';

const enough = 100; // entries of a level that are loaded together
const requests = 20; // at most, for that
const smallest = 5; // objects in a page
const largest = 100;

// after is the character after the slash: it begins after every key of a folder.
const after = '0';

// Level is a folder: its objects and the folders directly in it.
export class Level {
  constructor(resource, path, on) {
    this.resource = resource;
    this.path = path; // empty, or ends with a slash
    this.on = on; // refused is called with errors that another token may fix, loaded after new entries
    this.start = ''; // the key at which the next page begins
    this.folders = new Map(); // by name
    this.size = 50;
    this.entries = el('ul', { class: 'keys' });
    this.more = el('button', { type: 'button', hidden: '' }, 'Show more');
    this.state = el('p', { class: 'hint', role: 'status' });
    this.error = el('p', { class: 'error', role: 'alert', hidden: '' });
    this.node = el('div', { class: 'level' }, this.entries, this.state, this.error, this.more);
    this.more.addEventListener('click', () => this.load());
    this.load();
  }

  // load shows more entries.
  async load() {
    if (this.loading) return;
    this.loading = true;
    this.more.hidden = true;
    complain(this.error);
    say(this.state, 'Loading');
    const cut = [];
    const before = this.entries.childElementCount;
    let rest = true;
    try {
      for (let n = 0; rest && n < requests && this.entries.childElementCount < before + enough; n++) rest = await this.page(cut);
      say(this.state, this.entries.childElementCount ? '' : 'There are no objects here.');
      this.more.hidden = !rest;
    } catch (error) {
      say(this.state, '');
      complain(this.error, explain(error));
      this.on.refused(error);
      this.more.hidden = false;
    }
    say(this.more, this.error.hidden ? 'Show more' : 'Try again');
    this.loading = false;
    this.on.loaded();
    for (const folder of cut) await this.measure(folder);
  }

  // page loads a page. It returns whether there may be more. It appends to cut a folder that the
  // page has only a part of.
  async page(cut) {
    const answer = await read(of(this.resource, 'objects'), {
      ...(this.path && { 'scope.prefix': this.path.slice(0, -1) }), ...(this.start && { startKey: this.start }), pageSize: this.size,
    });
    let folder;
    let last;
    for (const { key } of answer.objects ?? []) {
      last = key;
      const rest = key.slice(this.path.length);
      const slash = rest.indexOf('/');
      folder = slash < 0 ? undefined : this.folder(rest.slice(0, slash));
      if (folder) say(folder.count, count(++folder.seen));
      else this.entries.append(el('li', {}, el('a', { href: link(this.resource, key), 'data-path': key }, rest)));
    }
    if (!answer.nextPageToken) return false;
    if (folder) {
      this.start = this.path + folder.name + after;
      this.size = Math.max(smallest, Math.floor(this.size / 2));
      say(folder.count, `${count(folder.seen)}+`);
      cut.push(folder);
    } else {
      this.start = `${last}\0`; // the smallest key after it
      this.size = Math.min(largest, this.size * 2);
    }
    return true;
  }

  // folder returns a folder of this level. It is empty until it is opened.
  folder(name) {
    let folder = this.folders.get(name);
    if (folder) return folder;
    folder = { name, seen: 0, count: el('span', { class: 'count', title: 'objects' }) };
    this.folders.set(name, folder);
    const path = `${this.path}${name}/`;
    const details = el('details', {}, el('summary', {}, `${name}/`, folder.count));
    details.addEventListener('toggle', () => {
      if (details.open && !folder.level) {
        folder.level = new Level(this.resource, path, this.on);
        details.append(folder.level.node);
      }
    });
    this.entries.append(el('li', {}, details));
    return folder;
  }

  // measure counts the objects of a folder.
  async measure(folder) {
    try {
      const answer = await get(of(this.resource, 'objects'), { 'scope.prefix': this.path + folder.name, countOnly: true });
      say(folder.count, count(answer.remainingCount ?? 0));
    } catch {
      // The count stays a minimum.
    }
  }
}
