// Search among the keys of a resource. The server finds the beginning of a key and labels. The
// page looks for a part of a key itself, in a limited number of objects at a time.

import { count, plural } from './format.js';
import { code, of, read } from './api.js';
import { KeyList } from './keylist.js';

const smallest = 500; // objects in a page; more if few match
const largest = 10_000;
const few = 100;

// Search shows the keys that match a text.
export class Search extends KeyList {
  requests = 10;
  busy = 'Searching';
  onward = 'Search on';

  // how is "prefix", "part" or "labels". folder is where to search if the visitor may not read the
  // whole resource.
  constructor(resource, how, text, folder, on) {
    super(resource, on);
    this.how = how;
    this.text = text;
    this.below = how === 'prefix' ? text.slice(0, Math.max(0, text.lastIndexOf('/'))) : '';
    this.folder = how === 'prefix' ? '' : folder.slice(0, -1);
    this.pageSize = smallest;
    this.start = how === 'prefix' ? text : '';
    this.searched = 0;
    this.node.prepend(this.state);
    this.load();
  }

  // parameters returns the parameters of the next page.
  parameters() {
    return {
      pageSize: this.pageSize,
      omitValues: true,
      ...(this.below && { 'scope.prefix': this.below }),
      ...(this.how === 'labels' && { labelSelector: this.text }),
      ...(this.start && { startKey: this.start }),
    };
  }

  summary() {
    if (!this.error.hidden && this.searched === 0) return '';
    const found = plural(this.entries.childElementCount, 'match').replace('matchs', 'matches');
    const all = this.left ? ` of ${count(this.searched + this.left)}` : '';
    const where = this.below && this.how !== 'prefix' ? ` below ${this.below}` : '';
    return (this.rest ? `${found} so far, in ${plural(this.searched, 'object')}${all}` : found) + where;
  }

  async page() {
    let answer;
    try {
      answer = await read(of(this.resource, 'objects'), this.parameters());
    } catch (error) {
      if (error.code !== code.denied || !this.folder) throw error;
      [this.below, this.folder] = [this.folder, '']; // a visitor may have rights for a path only
      return this.page();
    }
    const before = this.entries.childElementCount;
    for (const { key } of answer.objects ?? []) {
      if (this.how === 'prefix' && !key.startsWith(this.text)) return false;
      this.start = `${key}\0`; // the smallest key after it
      this.searched++;
      if (this.how === 'part' && !key.includes(this.text)) continue;
      this.add(key, key);
    }
    this.pageSize = this.entries.childElementCount - before < few ? Math.min(largest, this.pageSize * 2) : smallest;
    this.left = this.how === 'part' ? Number(answer.remainingCount ?? 0) : 0;
    return Boolean(answer.nextPageToken);
  }
}
