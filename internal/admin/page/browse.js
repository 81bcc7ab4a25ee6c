// Browsing a resource: the tree of its keys or the result of a search, and one object.

import { $, choose, complain, el, offer, say } from './dom.js';
import { go, link, place } from './route.js';
import { Level } from './tree.js';
import { Search } from './search.js';
import { ObjectView } from './object.js';
import { Editor } from './edit.js';
import { Rollback } from './rollback.js';
import { rights } from './api.js';

// The panels are below each other in a narrow window.
const narrow = window.matchMedia('(max-width: 56rem)');

// Browse follows the address of the page.
export class Browse {
  constructor(refused, servers) {
    this.on = { refused, loaded: () => this.mark() };
    this.rollback = new Rollback({ written: (wanted, before) => this.restored(wanted, before) });
    this.object = new ObjectView(refused, servers, (wanted) => void this.rollback.open({ ...wanted, codec: this.codecs[wanted.resource] }));
    this.unchecked = []; // the resources without validation rules, if the visitor may see that
    this.codecs = {}; // of the resources whose status the visitor may see
    this.editor = new Editor({
      show: (key, object) => key === this.object.key && object && this.object.show(object),
      written: (resource, key, base) => this.written(resource, key, base),
      deleted: (resource, key) => {
        this.link()?.closest('li').remove();
        void this.object.open(resource, key);
        $('object-title').focus();
      },
      closed: () => {
        if (this.object.key === undefined) $('object').hidden = true;
        $(this.object.key === undefined ? 'browse-new' : 'object-edit').focus();
      },
    });
    $('object-edit').addEventListener('click', () => this.edit(this.object.object));
    $('browse-new').addEventListener('click', () => this.edit());
    $('browse-history').addEventListener('click', () => this.past());
    $('object-delete').addEventListener('click', () => this.editor.confirm(this.resource, this.object.object, this.object.rights));
    document.addEventListener('click', (e) => {
      const a = e.target.closest?.('a[href^="#/"]');
      if (a?.hash !== location.hash || e.ctrlKey || e.metaKey || e.shiftKey) return;
      e.preventDefault(); // the browser would do nothing
      this.move('');
    });
    window.addEventListener('beforeunload', (e) => this.editor.changed && e.preventDefault());
    this.root = undefined; // the folder that the tree shows; undefined for a search
    this.folder = ''; // the folder that was shown last
    window.addEventListener('hashchange', (e) => this.move(e.oldURL));
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

  // move follows the address, unless the visitor wants to keep changes that are not written. before
  // is the address until now, if it is another one.
  move(before) {
    if (!this.editor.changed || window.confirm('Discard your changes?')) {
      this.follow(true);
      return;
    }
    if (before) history.pushState(undefined, '', before);
    choose($('browse-resource'), this.resource);
  }

  // follow shows the place that the address names. moved: the visitor has just gone there.
  follow(moved) {
    const at = place();
    if (!at) return;
    const { resource, path } = at;
    const folder = path === '' || path.endsWith('/');
    choose($('browse-resource'), resource);
    if (folder || this.resource !== resource) this.tree(resource, path.slice(0, path.lastIndexOf('/') + 1));
    this.editor.close();
    if (folder) this.object.close();
    else void this.object.open(resource, path);
    this.mark();
    if (!moved) return;
    const target = folder ? $('browse') : $('object');
    target.scrollIntoView({ block: folder || narrow.matches ? 'start' : 'nearest' });
    (folder ? $('browse-title') : $('object-title')).focus({ preventScroll: true });
  }

  // tree shows the folder with the path.
  tree(resource, path) {
    if (!resource) return;
    this.resource = resource;
    this.root = path;
    this.folder = path;
    offer($('tail-resource'), resource);
    const parts = path.split('/').slice(0, -1);
    const crumbs = [resource, ...parts].map((name, i) => (
      el('a', { href: link(resource, parts.slice(0, i).map((p) => `${p}/`).join('')) }, `${name}/`)
    ));
    $('browse-path').replaceChildren(...crumbs);
    $('browse-list').replaceChildren(new Level(resource, path, this.on).node);
    $('browse-clear').hidden = true;
    $('browse-panels').hidden = false;
    void this.allow();
  }

  // allow shows the button for a new object if the visitor may create one here.
  async allow() {
    const { resource, root } = this;
    for (const id of ['browse-new', 'browse-history']) $(id).hidden = true;
    const verbs = await rights(resource, `${root}x`).catch(() => []);
    if (this.resource !== resource || this.root !== root) return;
    this.verbs = verbs;
    $('browse-new').hidden = !verbs.includes('put');
    $('browse-history').hidden = !verbs.includes('history');
  }

  // edit opens the form for the object that is shown, or for a new one.
  edit(object) {
    const codec = this.codecs[this.resource];
    const checked = !this.unchecked.includes(this.resource);
    if (object) {
      this.editor.open(this.resource, object, { codec, checked, rights: this.object.rights });
      return;
    }
    this.instead('New object');
    this.editor.open(this.resource, undefined, { codec, checked, path: this.root ?? '', rights: this.verbs });
    $('object').scrollIntoView({ block: 'nearest' });
  }

  // instead shows the panel of an object for something else.
  instead(title) {
    this.object.close();
    this.mark();
    $('object').hidden = false;
    for (const part of ['object-body', 'object-edit', 'object-delete', 'recent', 'history', 'receivers']) $(part).hidden = true;
    complain($('object-error'));
    say($('object-title'), title);
    say($('object-state'), '');
  }

  // past shows the history of the folder.
  past() {
    if (this.editor.changed && !window.confirm('Discard your changes?')) return;
    const path = this.root ?? '';
    this.editor.close();
    this.instead(`History of ${this.resource}/${path}`);
    this.object.history.forget();
    this.object.history.of(this.resource, undefined, path);
    $('history').hidden = false;
    $('history').open = true; // which loads it
    $('object').scrollIntoView({ block: 'nearest' });
    $('object-title').focus({ preventScroll: true });
  }

  // restored shows what a rollback has written. before is the object that it replaced.
  restored({ resource, key, target }, before) {
    if (resource !== this.resource) return;
    if (this.root !== undefined && (!before || !target)) this.tree(resource, this.root);
    if (this.object.key === key) {
      void this.object.load();
    } else if (this.object.key === undefined) {
      this.object.history.again();
    }
    $('object-title').focus();
  }

  // written shows an object that was written.
  written(resource, key, base) {
    if (!base) this.tree(resource, key.slice(0, key.lastIndexOf('/') + 1));
    if (this.object.key === key) {
      void this.object.load();
      $('object-title').focus();
    } else {
      go(resource, key);
    }
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
    if (this.resource !== resource) this.folder = '';
    this.resource = resource;
    this.root = undefined;
    $('browse-path').replaceChildren();
    $('browse-list').replaceChildren(new Search(resource, $('browse-how').value, text, this.folder, this.on).node);
    $('browse-clear').hidden = false;
    $('browse-panels').hidden = false;
  }

  // again forgets what an earlier token has shown, and asks with the new one.
  again() {
    const { resource, key } = this.object;
    this.codecs = {};
    this.unchecked = [];
    this.editor.close();
    for (const id of ['delete', 'rollback']) if ($(id).open) $(id).close();
    this.object.forget();
    this.object.close();
    if (this.resource === undefined) {
      $('browse-resource').value = '';
      return;
    }
    if (this.root === undefined) this.search();
    else this.tree(this.resource, this.root);
    if (key !== undefined) void this.object.open(resource, key);
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
