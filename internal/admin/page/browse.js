// Browsing a resource: the tree of its keys or the result of a search, and one object.

import { $, choose, el } from './dom.js';
import { go, link, place } from './route.js';
import { Level } from './tree.js';
import { Search } from './search.js';
import { ObjectView } from './object.js';

// Browse follows the address of the page.
export class Browse {
  constructor(refused) {
    this.on = { refused, loaded: () => this.mark() };
    this.object = new ObjectView(refused);
    this.root = undefined; // the folder that the tree shows; undefined for a search
    window.addEventListener('hashchange', () => this.follow(true));
    $('browse-resource').addEventListener('change', () => go($('browse-resource').value));
    $('browse-form').addEventListener('submit', (e) => {
      e.preventDefault();
      this.search();
    });
    $('browse-clear').addEventListener('click', () => {
      $('browse-text').value = '';
      this.tree(this.resource, '');
      $('browse-text').focus();
    });
    $('browse-open').addEventListener('submit', (e) => {
      e.preventDefault();
      const [resource, ...path] = $('browse-name').value.trim().split('/');
      if (resource) go(resource, path.join('/'));
    });
    $('object').addEventListener('keydown', (e) => {
      if (e.key === 'Escape' && !e.defaultPrevented) this.back();
    });
    $('object-back').addEventListener('click', () => this.back());
  }

  // follow shows the place that the address names. moved: the visitor has just gone there.
  follow(moved) {
    const at = place();
    if (!at) return;
    const { resource, path } = at;
    const folder = path === '' || path.endsWith('/');
    choose($('browse-resource'), resource);
    if (folder || this.resource !== resource) this.tree(resource, path.slice(0, path.lastIndexOf('/') + 1));
    if (folder) this.object.close();
    else void this.object.open(resource, path);
    this.mark();
    if (!moved) return;
    const target = folder ? $('browse') : $('object');
    target.scrollIntoView({ block: folder ? 'start' : 'nearest' });
    (folder ? $('browse-title') : $('object-title')).focus({ preventScroll: true });
  }

  // tree shows the folder with the path.
  tree(resource, path) {
    if (!resource) return;
    this.resource = resource;
    this.root = path;
    const parts = path.split('/').slice(0, -1);
    const crumbs = [resource, ...parts].map((name, i) => (
      el('a', { href: link(resource, parts.slice(0, i).map((p) => `${p}/`).join('')) }, `${name}/`)
    ));
    $('browse-path').replaceChildren(...crumbs);
    $('browse-list').replaceChildren(new Level(resource, path, this.on).node);
    $('browse-clear').hidden = true;
    $('browse-panels').hidden = false;
  }

  // search shows the objects that match the form.
  search() {
    const text = $('browse-text').value;
    const resource = $('browse-resource').value;
    if (!resource) return;
    if (!text) {
      this.tree(resource, '');
      return;
    }
    this.resource = resource;
    this.root = undefined;
    $('browse-path').replaceChildren();
    $('browse-list').replaceChildren(new Search(resource, $('browse-how').value, text, this.on).node);
    $('browse-clear').hidden = false;
    $('browse-panels').hidden = false;
  }

  // retry repeats what was refused, with another token.
  retry() {
    if (this.resource === undefined) return;
    if (this.root === undefined) this.search();
    else this.tree(this.resource, this.root);
    if (this.object.key !== undefined) void this.object.load();
  }

  // mark marks the object in the list that is shown beside it.
  mark() {
    for (const a of $('browse-list').querySelectorAll('[aria-current]')) a.removeAttribute('aria-current');
    this.link()?.setAttribute('aria-current', 'true');
  }

  // link returns the object in the list that is shown beside it.
  link() {
    return $('browse-list').querySelector(`[data-path="${CSS.escape(this.object.key ?? '')}"]`);
  }

  // back returns to the list.
  back() {
    const a = this.link() ?? $('browse-title');
    a.focus();
    a.scrollIntoView({ block: 'center' });
  }
}
