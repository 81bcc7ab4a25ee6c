// The keys of a resource as a tree of folders. The server has no folders: a level is read page
// by page, and the rest of a folder that does not fit into a page is skipped.

import { el, say } from './dom.js';
import { count } from './format.js';
import { get, of, read } from './api.js';
import { KeyList } from './keylist.js';

const smallest = 5; // objects in a page
const largest = 100;

// after is the character after the slash: it begins after every key of a folder.
const after = '0';

// Level is a folder: its objects and the folders directly in it.
export class Level extends KeyList {
  requests = 20;
  busy = 'Loading';
  onward = 'Show more';

  constructor(resource, path, on) {
    super(resource, on);
    this.path = path; // empty, or ends with a slash
    this.folders = new Map(); // by name
    this.size = 50;
    this.load();
  }

  // load shows more entries, and then counts the objects of folders that pages have cut.
  async load() {
    const cut = this.cut = []; // folders of which a page has only a part
    await super.load();
    for (const folder of cut) await this.measure(folder);
  }

  summary() {
    return this.error.hidden && !this.entries.childElementCount ? 'There are no objects here.' : '';
  }

  async page() {
    const answer = await read(of(this.resource, 'objects'), {
      ...(this.path && { 'scope.prefix': this.path.slice(0, -1) }), ...(this.start && { startKey: this.start }), pageSize: this.size, omitValues: true,
    });
    let folder;
    let last;
    for (const { key } of answer.objects ?? []) {
      last = key;
      const rest = key.slice(this.path.length);
      const slash = rest.indexOf('/');
      folder = slash < 0 ? undefined : this.folder(rest.slice(0, slash));
      if (folder) say(folder.count, count(++folder.seen));
      else this.add(key, rest);
    }
    if (!answer.nextPageToken) return false;
    if (folder) {
      this.start = this.path + folder.name + after;
      this.size = Math.max(smallest, Math.floor(this.size / 2));
      say(folder.count, `${count(folder.seen)}+`);
      this.cut.push(folder);
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
