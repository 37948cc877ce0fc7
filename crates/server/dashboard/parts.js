// Parts of pages: cards, tiles, tables, messages, dialogs.

import { html, useEffect, useMemo, useRef, useState } from './preact.mjs';
import { session } from './api.js';
import { bytes, percent, seconds, short, yesNo } from './format.js';

export function Card({ title, note, wide, children, actions }) {
  return html`<section class=${wide ? 'card wide' : 'card'}>
    ${(title || actions) && html`<header>
      ${title && html`<h2>${title}</h2>`}
      ${note && html`<span class="note">${note}</span>`}
      ${actions && html`<span class="actions">${actions}</span>`}
    </header>`}
    ${children}
  </section>`;
}

// One figure with its unit. tone: good, warn, bad.
export function Tile({ label, value, note, tone, id }) {
  return html`<div class=${`tile ${tone ?? ''}`}>
    <dt>${label}</dt>
    <dd data-figure=${id}>${value}</dd>
    ${note && html`<small>${note}</small>`}
  </div>`;
}

export const Tiles = ({ four, children }) => html`<dl class=${four ? 'tiles four' : 'tiles'}>${children}</dl>`;

export function Notice({ tone = 'info', children }) {
  return html`<p class=${`notice ${tone}`} role=${tone === 'bad' ? 'alert' : 'status'}>${children}</p>`;
}

// The failure of a request in words; nothing without one.
export function Failure({ error }) {
  if (!error) return null;
  const hints = {
    unauthorized: 'Another user, or a permission, is needed.',
    overloaded: 'The server is overloaded: the page tries again.',
  };
  return html`<${Notice} tone="bad">${error.message} ${hints[error.kind] ?? ''}<//>`;
}

// A table. columns: [{ name, label, format, kind: 'number' | 'code', cell }]; rows: objects.
// Columns with a value are sorted by their button. error: the reason why there are no rows yet, told elsewhere.
export function Table({ label, columns, rows, empty, sortedBy, rowKey, packed, error }) {
  const [order, setOrder] = useState(sortedBy ?? null);
  const sorted = useMemo(() => sort(rows ?? [], order), [rows, order]);
  if (!rows) return error ? null : html`<p class="empty">The server is asked.</p>`;
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const direction = (name) => (order?.name === name ? (order.falls ? 'descending' : 'ascending') : 'none');
  const turn = (name, kind) => setOrder((last) =>
    last?.name === name ? { name, falls: !last.falls } : { name, falls: kind === 'number' });
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table class=${packed ? 'packed' : ''}>
    <thead><tr>${columns.map(({ name, label: head, kind, cell }) => html`
      <th key=${name} scope="col" class=${kind ?? ''} aria-sort=${cell ? undefined : direction(name)}>
        ${cell ? head : html`<button type="button" onClick=${() => turn(name, kind)}>${head}<span
          aria-hidden="true">${{ none: '', ascending: ' ↑', descending: ' ↓' }[direction(name)]}</span></button>`}
      </th>`)}</tr></thead>
    <tbody>${sorted.map((row, number) => html`<tr key=${rowKey ? rowKey(row) : number}>
      ${columns.map(({ name, kind, cell, format }) => html`<td key=${name} class=${kind ?? ''}>
        ${cell ? cell(row) : show(row[name], format)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

function show(value, format) {
  if (format) return format(value);
  return value === null || value === undefined || value === '' ? '–' : String(value);
}

function sort(rows, order) {
  if (!order) return rows;
  const value = (row) => {
    const given = row[order.name];
    if (typeof given !== 'string' || given === '' || Number.isNaN(Number(given))) return given;
    return Number(given);
  };
  const compare = (one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    const less = typeof a === typeof b ? a < b : String(a) < String(b);
    return less === Boolean(order.falls) ? 1 : -1;
  };
  return [...rows].sort(compare);
}

// A bar for a share of a whole, from 0 to 1. Its width is set by the script, since styles in the page are
// forbidden.
export function Bar({ share, tone }) {
  const bar = useRef(null);
  useEffect(() => {
    bar.current.style.width = `${Math.min(100, Math.max(0, share * 100))}%`;
  }, [share]);
  return html`<span class=${`bar ${tone ?? ''}`} aria-hidden="true"><i ref=${bar}></i></span>`;
}

// Asks before something is done that cannot be taken back.
export function Confirm({ question, detail, action, onConfirm, onClose }) {
  const dialog = useRef(null);
  const [state, setState] = useState({ busy: false, error: null });
  useEffect(() => { dialog.current.showModal(); }, []);
  const confirm = async () => {
    setState({ busy: true, error: null });
    try {
      await onConfirm();
      dialog.current?.close();
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return html`<dialog ref=${dialog} onClose=${onClose} aria-labelledby="confirm-question">
    <h2 id="confirm-question">${question}</h2>
    <p>${detail}</p>
    <${Failure} error=${state.error} />
    <footer>
      <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
      <button type="button" class="danger" data-confirm disabled=${state.busy} onClick=${confirm}>${action}</button>
    </footer>
  </dialog>`;
}

// A view of the server as a table, or the reason why it is missing.
export const hasView = (name) => session.views?.has(name) ?? false;

export function NoView({ name, what }) {
  return html`<p class="empty">${what} This server has no view <code>system_views.${name}</code>.</p>`;
}

// Columns of any view: units follow from the names, alignment from the types.
const NUMBERS = /^(tinyint|smallint|int|bigint|varint|counter|float|double|decimal)$/;

export function columnsOf(answer, order = [], hidden = []) {
  const names = answer.columns.map((column) => column.name).filter((name) => !hidden.includes(name));
  const first = order.filter((name) => names.includes(name));
  const all = [...first, ...names.filter((name) => !first.includes(name))];
  const type = Object.fromEntries(answer.columns.map((column) => [column.name, column.type]));
  return all.map((name) => ({ name, label: labelOf(name), ...lookOf(name, type[name]) }));
}

function labelOf(name) {
  const words = name.replace(/_(seconds|micros|millis|bytes|name)$/, '').replaceAll('_', ' ');
  return words[0].toUpperCase() + words.slice(1);
}

// A long text: three lines are shown, and all of it under the pointer.
export const clamp = (value) => (value === null || value === undefined || value === ''
  ? '–' : html`<span class="clamp" title=${value}>${value}</span>`);

function lookOf(name, type) {
  const number = (format) => ({
    kind: 'number',
    format: (value) => (value === null ? '–' : format(Number(value))),
  });
  if (NUMBERS.test(type)) {
    if (name.endsWith('_seconds')) return number(seconds);
    if (name.endsWith('_micros')) return number((value) => seconds(value / 1e6));
    if (name.endsWith('_millis')) return number((value) => seconds(value / 1e3));
    if (/(^|_)bytes(_|$)/.test(name)) return number(bytes);
    if (name === 'share' || name.endsWith('_share')) return number(percent);
    if (name === 'port' || name === 'id' || name.endsWith('timestamp')) return number(String);
    return number(short);
  }
  if (type === 'boolean') return { format: yesNo };
  if (/^(statement|query|text)$/.test(name)) return { kind: 'code long', format: clamp };
  if (/^(id|key|lost_row)$/.test(name)) return { kind: 'code' };
  return {};
}
