// Writing: a form for an object, the review of its changes, and the deletion. A write has the
// revision that the visitor has seen as its precondition.

import { $, complain, el, say } from './dom.js';
import { explain, of, send } from './api.js';
import { Check } from './check.js';
import { differences } from './diff.js';
import { because, limit } from './message.js';
import { asText, faultOf, isJSON, labelsOf } from './value.js';

// parseLabels returns the labels of a text such as "env=prod, team=cart".
function parseLabels(text) {
  const parts = text.split(',').map((part) => part.trim()).filter(Boolean);
  return Object.fromEntries(parts.map((part) => {
    const at = part.indexOf('=');
    return at < 0 ? [part, ''] : [part.slice(0, at).trim(), part.slice(at + 1).trim()];
  }));
}

// withLineBreaks returns the text of a field with the line breaks of before: the field has only \n.
function withLineBreaks(text, before) {
  if (text === before.replace(/\r\n?/g, '\n')) return before;
  const others = /\r(?!\n)|(?<!\r)\n/;
  return before.includes('\r\n') && !others.test(before) ? text.replaceAll('\n', '\r\n') : text;
}

// Editor shows the form. on.show is called with a newer state of the object, on.written after a
// write, on.deleted after a deletion, and on.closed when the form closes without a write.
export class Editor {
  constructor(on) {
    this.on = on;
    this.check = new Check(() => this.toCheck());
    $('edit').addEventListener('submit', (e) => {
      e.preventDefault();
      if ($('edit-review').hidden) this.review();
      else void this.write();
    });
    for (const form of ['edit', 'delete']) limit($(`${form}-message`), $(`${form}-error`));
    $('edit-again').addEventListener('click', () => this.again());
    $('edit-cancel').addEventListener('click', () => this.cancel());
    $('edit').addEventListener('keydown', (e) => {
      if (e.key !== 'Escape') return;
      e.preventDefault();
      if (!$('edit-review').hidden) this.again();
      else if (!this.changed) this.cancel();
    });
    $('delete-cancel').addEventListener('click', () => $('delete').close());
    $('delete-confirm').addEventListener('click', () => this.delete());
  }

  // changed reports whether the form has changes that are not written.
  get changed() {
    return !$('edit').hidden && this.fields() !== this.began;
  }

  fields() {
    return JSON.stringify(['key', 'value', 'type', 'labels'].map((name) => $(`edit-${name}`).value));
  }

  // open shows the form for an object, or for a new one with a key that begins with path. codec is
  // that of the resource, if it is known. checked is whether the resource has rules that the values must follow, as far as
  // is known.
  open(resource, object, { codec, path, rights, checked }) {
    this.checked = checked;
    this.resource = resource;
    this.base = object;
    this.key = object?.key; // undefined: the visitor chooses it
    this.free = codec === undefined || codec === 'object'; // content type and labels are up to the writer
    this.rights = rights;
    $('edit-key').value = object?.key ?? path;
    $('edit-key-row').hidden = Boolean(object);
    $('edit-value').value = object?.text ?? '';
    $('edit-value').setSelectionRange(0, 0);
    $('edit-type').value = object?.contentType ?? '';
    $('edit-message').value = '';
    $('edit-labels').value = object ? labelsOf(object).join(', ') : '';
    this.check.forget();
    for (const row of ['type', 'labels']) $(`edit-${row}-row`).hidden = !this.free;
    $('edit').hidden = false;
    this.again();
    this.began = this.fields();
    $(object ? 'edit-value' : 'edit-key').focus();
  }

  close() {
    $('edit').hidden = true;
    this.check.forget();
  }

  cancel() {
    this.close();
    this.on.closed();
  }

  // again returns from the review to the form.
  again() {
    complain($('edit-error'));
    $('edit-fields').hidden = false;
    $('edit-review').hidden = true;
    $('edit-again').hidden = true;
    say($('edit-submit'), 'Review the changes');
    $('edit-value').focus();
  }

  // operation returns the write that the form describes.
  operation() {
    return {
      key: this.key ?? $('edit-key').value.trim(),
      text: withLineBreaks($('edit-value').value, this.base?.text ?? ''),
      contentType: this.free ? $('edit-type').value.trim() : this.base?.contentType,
      labels: this.free ? parseLabels($('edit-labels').value) : this.base?.labels,
    };
  }

  // put returns the operation of the protocol.
  put({ key, text, contentType, labels }) {
    const { base } = this;
    return {
      key, text, ifModRevision: base?.modRevision ?? 0,
      ...(this.free && Object.keys(labels).length > 0 && { labels }),
      ...(this.free && contentType && { contentType }),
      ...(base?.hasTtl && { keepTtl: true }),
      ...(base?.opaque && { overwriteOpaque: true }),
    };
  }

  // toCheck returns the write to check while the visitor types, if there is something to check.
  toCheck() {
    const wanted = this.operation();
    if ($('edit').hidden || !this.checked || !wanted.key || wanted.key.endsWith('/')) return undefined;
    return { resource: this.resource, put: this.put(wanted), contentType: wanted.contentType };
  }

  // review shows the changes before they are written.
  review() {
    const wanted = this.operation();
    const fault = isJSON(wanted.contentType) && faultOf(wanted.text);
    if (fault) {
      this.again();
      complain($('edit-error'), `The value is not JSON: ${fault}`);
      return;
    }
    complain($('edit-error'));
    const before = this.base ? asText(this.base, true) : '';
    const after = asText(wanted, true);
    $('edit-diff').replaceChildren(before === after ? el('p', { class: 'hint' }, this.base?.text === wanted.text ? 'There are no changes.' : 'Only white space changes.') : differences(before, after));
    $('edit-overwrite').checked = false;
    $('edit-overwrite-row').hidden = !this.base?.opaque;
    $('edit-fields').hidden = true;
    $('edit-review').hidden = false;
    $('edit-again').hidden = false;
    say($('edit-review-title'), this.base ? `Changes of ${wanted.key}` : `New object ${wanted.key}`);
    say($('edit-submit'), this.base ? 'Write' : 'Create');
    $('edit-review-title').focus();
  }

  async write() {
    const { resource, base } = this;
    if (base?.opaque && !$('edit-overwrite').checked) {
      complain($('edit-error'), 'Confirm first that the present value may be replaced.');
      return;
    }
    const wanted = this.operation();
    const put = this.put(wanted);
    $('edit-submit').disabled = true;
    try {
      const answer = await send('POST', of(resource, 'transactions'), {}, {
        operations: [{ put }], returnCurrent: this.rights.includes('get'), ...because($('edit-message')),
      });
      if (answer.applied) {
        this.close();
        this.on.written(resource, wanted.key, base);
      } else {
        this.conflict(wanted.key, answer.results?.[0]?.object);
      }
    } catch (error) {
      if (error.reason === 'VALUE_REFUSED') {
        this.again();
        this.check.judge(error.violations);
      }
      complain($('edit-error'), explain(error));
    } finally {
      $('edit-submit').disabled = false;
    }
  }

  // conflict compares the form with the newer state of the object.
  conflict(key, current) {
    const had = Boolean(this.base);
    this.base = current;
    this.on.show(key, current);
    this.review();
    const now = current && `it is at revision ${current.modRevision} now, as shown above. To write your value instead, review the changes to that state.`;
    if (had) complain($('edit-error'), current ? `The object has changed since you began: ${now}` : 'The object was deleted since you began. You can create it again.');
    else complain($('edit-error'), current ? `An object with this key exists: ${now}` : 'An object with this key exists, and you may not read it.');
  }

  // confirm asks before an object is deleted.
  confirm(resource, object, rights) {
    if (this.doomed?.object.key !== object.key || !$('delete').open) $('delete-message').value = '';
    this.doomed = { resource, object, rights };
    complain($('delete-error'));
    say($('delete-text'), `Delete ${object.key} of ${resource}? It is at revision ${object.modRevision}. Every watch on it receives the deletion.`);
    if (!$('delete').open) $('delete').showModal();
    $('delete-cancel').focus();
  }

  async delete() {
    const { resource, object, rights } = this.doomed;
    try {
      const answer = await send('DELETE', of(resource, 'objects', object.key), {
        'delete.ifModRevision': object.modRevision, ...(rights.includes('get') && { returnCurrent: true }), ...because($('delete-message')),
      });
      if (!answer.applied && answer.object) {
        this.on.show(object.key, answer.object);
        this.confirm(resource, answer.object, rights);
        complain($('delete-error'), 'The object has changed since you opened it. The newer value is shown behind this question.');
        return;
      }
      $('delete').close();
      this.on.deleted(resource, object.key);
    } catch (error) {
      complain($('delete-error'), explain(error));
    }
  }
}
