// Restoring an object as its history has it: a preview, and a write whose precondition is the state in the preview.

import { $, complain, say } from './dom.js';
import { code, explain, isAway, of, Outdated, send } from './api.js';
import { compared, present, same } from './history.js';
import { limit, tooLong } from './message.js';

// Rollback asks before it writes. on.written is called after the write.
export class Rollback {
  constructor(on) {
    this.on = on;
    $('rollback').addEventListener('close', () => this.forget());
    limit($('rollback-message'), $('rollback-error'), () => this.before());
    $('rollback-cancel').addEventListener('click', () => $('rollback').close());
    $('rollback-confirm').addEventListener('click', () => this.write());
    $('rollback-message').addEventListener('keydown', (e) => e.key === 'Enter' && !$('rollback-confirm').disabled && this.write());
  }

  // forget removes what the preview has shown.
  forget() {
    this.wanted = undefined;
    this.now = undefined;
    this.uncertain = false; // the answer to a write was lost
    $('rollback-diff').replaceChildren();
    $('rollback-message').value = '';
    $('rollback-overwrite-row').hidden = true;
    for (const id of ['rollback-title', 'rollback-text', 'rollback-note']) say($(id), '');
    complain($('rollback-error'));
  }

  // open shows the preview. wanted has the resource, the key, the revision and the object to restore, which is undefined
  // if there was none, the codec of the resource if it is known, and the rights of the visitor.
  async open(wanted) {
    this.wanted = wanted;
    this.uncertain = false;
    $('rollback-message').value = '';
    complain($('rollback-error'));
    say($('rollback-title'), `Roll back ${wanted.key} to revision ${wanted.revision}`);
    say($('rollback-text'), 'Loading');
    say($('rollback-note'), `The message begins with “${this.source()}”.`);
    $('rollback-diff').replaceChildren();
    $('rollback-overwrite-row').hidden = true;
    $('rollback-confirm').disabled = true;
    if (!$('rollback').open) $('rollback').showModal();
    $('rollback-cancel').focus();
    try {
      const now = await present(wanted.resource, wanted.key);
      if (this.wanted === wanted) this.preview(now);
    } catch (error) {
      if (error instanceof Outdated || this.wanted !== wanted) return;
      say($('rollback-text'), '');
      complain($('rollback-error'), explain(error));
    }
  }

  source() {
    return `rollback to revision ${this.wanted.revision}`;
  }

  // before returns what the message begins with.
  before() {
    return `${this.source()}: `;
  }

  // preview shows what the write changes.
  preview(now) {
    const { target } = this.wanted;
    this.now = now;
    const nothing = same(now, target);
    const what = !target ? 'The object is deleted' : now ? `The object, which is at revision ${now.modRevision}, is written as below` : 'The object is created again';
    const had = now?.hasTtl ? ' It then has no time to live any more.' : ' It had a time to live, and is written without one.';
    const ttl = target && (now?.hasTtl || target.hasTtl) ? had : '';
    say($('rollback-text'), nothing ? 'The present state is the same. There is nothing to roll back.' : `${what}. Nothing is written if it changes before.${ttl}`);
    $('rollback-diff').replaceChildren(...(nothing ? [] : [compared(now, target && { ...target, hasTtl: false })]));
    $('rollback-overwrite').checked = false;
    $('rollback-overwrite-row').hidden = nothing || !this.overwrites;
    $('rollback-confirm').disabled = nothing;
  }

  // overwrites reports whether the write replaces a value that the server cannot decode.
  get overwrites() {
    return Boolean(this.wanted.target && this.now?.opaque);
  }

  // operation returns the write.
  operation({ key, target, codec }, now, withLabels) {
    const ifModRevision = now?.modRevision ?? 0;
    if (!target) return { delete: { key, ifModRevision } };
    const { text, data, labels, contentType } = target;
    const free = codec === undefined || codec === 'object'; // as in the form for edits
    return {
      put: {
        key, ifModRevision, ...(data === undefined ? { text } : { data }),
        ...(free && contentType && { contentType }),
        ...(free && withLabels && labels && { labels }),
        ...(now?.opaque && { overwriteOpaque: true }),
      },
    };
  }

  async write() {
    const { wanted, now } = this;
    if (this.overwrites && !$('rollback-overwrite').checked) {
      complain($('rollback-error'), 'Confirm first that the present value may be replaced.');
      return;
    }
    const text = $('rollback-message').value.trim();
    const message = text ? `${this.before()}${text}` : this.source();
    const fault = tooLong(message);
    if (fault) {
      complain($('rollback-error'), fault);
      return;
    }
    const transact = (withLabels) => send('POST', of(wanted.resource, 'transactions'), {}, {
      operations: [this.operation(wanted, now, withLabels)], returnCurrent: true, message,
    });
    $('rollback-confirm').disabled = true;
    complain($('rollback-error'));
    try {
      const answer = await transact(true).catch((error) => {
        // The codec is not known to visitors who may not list the resources, and may find the labels in the value.
        if (wanted.codec !== undefined || error.code !== code.invalid || !error.violations.some((v) => v.field?.endsWith('.labels'))) throw error;
        return transact(false);
      });
      if (answer.applied) {
        this.written(wanted, now);
        return;
      }
      if (this.wanted !== wanted) return;
      const current = answer.results?.[0]?.object;
      if (this.uncertain) {
        this.settle(wanted, now, current, 'The object has changed meanwhile.');
        return;
      }
      this.preview(current);
      complain($('rollback-error'), current
        ? `Nothing was written: the object has changed meanwhile, and is at revision ${current.modRevision} now. The preview shows what would change in that state.`
        : 'Nothing was written: the object was deleted meanwhile.');
    } catch (error) {
      if (this.wanted !== wanted) return;
      if (isAway(error)) {
        await this.lookUp(wanted, now, error);
        return;
      }
      complain($('rollback-error'), explain(error));
      $('rollback-confirm').disabled = false;
    }
  }

  // written closes the question after the write.
  written(wanted, now) {
    if (this.wanted === wanted) $('rollback').close();
    this.on.written(wanted, now);
  }

  // lookUp finds out whether a write was applied whose answer was lost.
  async lookUp(wanted, now, error) {
    this.uncertain = true;
    const fault = `${explain(error)}. The write may have been applied.`;
    complain($('rollback-error'), fault);
    try {
      const current = await present(wanted.resource, wanted.key);
      if (this.wanted === wanted) this.settle(wanted, now, current, fault);
    } catch {
      // The precondition of the write makes it safe to try again.
      if (this.wanted === wanted) $('rollback-confirm').disabled = false;
    }
  }

  // settle ends with the state that was wanted, or shows what a write would change in another one.
  settle(wanted, now, current, fault) {
    if (same(current, wanted.target)) {
      this.written(wanted, now);
      return;
    }
    this.preview(current);
    complain($('rollback-error'), `${fault} The preview shows what would change in the present state.`);
  }
}
