// Validation while the visitor types: the server checks the write and writes nothing. The faults are listed below the
// field with the lines that they are in.

import { $, el, say } from './dom.js';
import { plural } from './format.js';
import { code, of, Refusal, send } from './api.js';
import { faultOf, isJSON, placeOf } from './value.js';

const pause = 400; // milliseconds without typing until the text is checked

// where returns the JSON pointer into the value that a violation names, or undefined if it names another field.
const where = (field) => field.match(/(?:^|\.)put\.value(\/.*|$)/s)?.[1];

// inputOf returns which input of the form has what a violation names, or undefined if none has it.
function inputOf(field) {
  if (where(field) !== undefined || /\.(text|data)$/.test(field)) return 'value';
  if (/\.key$/.test(field)) return 'key';
  if (/\.content_type$/.test(field)) return 'type';
  return /\.labels\b/.test(field) ? 'labels' : undefined;
}

// Check asks about the text of the form. wanted returns the resource and the write, or undefined if there is nothing
// to check.
export class Check {
  constructor(wanted) {
    this.wanted = wanted;
    this.denied = new Set(); // places that the visitor may not write: each check would be in the audit log
    for (const id of ['key', 'value', 'type', 'labels']) $(`edit-${id}`).addEventListener('input', () => this.typed());
  }

  // forget removes everything.
  forget() {
    clearTimeout(this.timer);
    this.text = undefined;
    this.denied.clear();
    this.show([]);
    say($('edit-check'), '');
  }

  typed() {
    clearTimeout(this.timer);
    say($('edit-check'), ''); // it was about an earlier text
    this.timer = setTimeout(() => this.ask(), pause);
  }

  // ask checks the present text. While a request is under way there is no other one: the newest text is checked after it.
  async ask() {
    this.text = {}; // identifies what was typed last
    if (this.asking) return;
    this.asking = true;
    try {
      for (let asked; asked !== this.text && this.text;) {
        asked = this.text;
        const faults = await this.faults();
        if (asked !== this.text) continue;
        if (faults) this.judge(faults);
        else this.show([]);
      }
    } finally {
      this.asking = false;
    }
  }

  // faults returns the faults of the present text: those of the server, or that it is not JSON. It returns undefined if
  // the server does not say.
  async faults() {
    const wanted = this.wanted();
    if (!wanted) return undefined;
    const { resource, put, contentType } = wanted;
    const target = of(resource, put.key);
    if (this.denied.has(target)) return undefined;
    const broken = isJSON(contentType) && faultOf(put.text);
    if (broken) return [{ field: 'put.value', description: `is not JSON: ${broken}` }];
    try {
      await send('POST', of(resource, 'transactions'), {}, { operations: [{ put }], validateOnly: true });
      return [];
    } catch (error) {
      if (error.code === code.denied) this.denied.add(target);
      return error instanceof Refusal && error.code === code.invalid && error.violations.length > 0 ? error.violations : undefined;
    }
  }

  // judge shows the faults, or that there are none.
  judge(faults) {
    this.show(faults);
    say($('edit-check'), faults.length > 0 ? plural(faults.length, 'fault') : 'The server accepts this value.');
  }

  // show lists faults. A fault in a line of the text is a button that selects it.
  show(faults) {
    const field = $('edit-value');
    const text = field.value;
    const placed = faults.map(({ field: name = '', description = '' }) => {
      const pointer = where(name);
      return { name, description, pointer, place: pointer && placeOf(text, pointer) };
    }).sort((a, b) => (a.place?.[0] ?? 0) - (b.place?.[0] ?? 0));
    $('edit-faults').replaceChildren(...placed.map(({ name, description, pointer, place }) => {
      const what = [el('code', {}, pointer || (pointer === undefined ? name.replace(/^operations\[0\]\./, '') : 'value')), ' ', el('bdi', {}, description)];
      if (!place) return el('li', {}, ...what);
      const [start, end] = place;
      const button = el('button', { type: 'button', class: 'jump' }, `line ${text.slice(0, start).split('\n').length}`);
      button.addEventListener('click', () => {
        if (field.value !== text) return; // typed since: the next check shows the new place
        field.focus();
        field.setSelectionRange(start, end);
      });
      return el('li', {}, button, ' ', ...what);
    }));
    $('edit-faults').hidden = faults.length === 0;
    const wrong = new Set(faults.map(({ field: name = '' }) => inputOf(name)));
    for (const input of ['key', 'value', 'type', 'labels']) $(`edit-${input}`).ariaInvalid = wrong.has(input) ? 'true' : null;
  }
}
