// Console: a statement, its result as a table, and as a plot if it has numbers.

import { html, useEffect, useRef, useState } from './preact.mjs';
import { onEnd, query, useSession } from './api.js';
import { count, seconds, short } from './format.js';
import { Card, Failure, Notice, Table } from './parts.js';
import { Plot } from './plot.js';

const NUMBERS = /^(tinyint|smallint|int|bigint|varint|counter|float|double|decimal)$/;
const TIMES = /^(timestamp|date)$/;
const HISTORY_MAX = 100;

// The console outlives visits of other pages. Statements are kept by this page only: they may have secrets.
const empty = () => ({ statement: '', history: [], result: null, keyspace: null, shows: 'table' });
const kept = empty();
// The next user of this page sees neither statements nor results of the one before.
onEnd(() => Object.assign(kept, empty()));

const timeOf = (value) => {
  const at = Date.parse(String(value).replace(' ', 'T'));
  return Number.isNaN(at) ? null : at / 1000;
};

// The plot of a result: numbers over its first time, else over its first number, else over the row.
function plotOf(result) {
  if (result?.kind !== 'rows' || result.values.length < 2) return null;
  const columns = result.columns.map((column, at) => ({ ...column, at }));
  const numbers = columns.filter(({ type }) => NUMBERS.test(type));
  const time = columns.find(({ type }) => TIMES.test(type));
  const over = time ?? (numbers.length > 1 ? numbers[0] : null);
  const lines = numbers.filter((column) => column !== over).slice(0, 6);
  if (lines.length === 0) return null;
  const x = (row, place) => (time ? timeOf(row[time.at]) : over ? Number(row[over.at]) : place + 1);
  const number = (value) => (value === null || !Number.isFinite(Number(value)) ? null : Number(value));
  const points = result.values.map((row, place) => [x(row, place), row])
    .filter(([at]) => at !== null && Number.isFinite(at))
    .sort(([one], [other]) => one - other);
  return {
    isTime: Boolean(time),
    over: over?.name ?? 'row',
    times: points.map(([at]) => at),
    lines: lines.map(({ name, at }) => ({ label: name, points: points.map(([, row]) => number(row[at])) })),
  };
}

const DONE = {
  done: () => 'Done.',
  keyspace: (answer) => `The keyspace is now ${answer.keyspace}.`,
  schema: (answer) => `The schema has changed: ${answer.change} in keyspace ${answer.keyspace}.`,
};

function Result({ result, onNext, isBusy }) {
  const [shows, setShows] = useState(kept.shows);
  const show = (what) => { kept.shows = what; setShows(what); };
  const plot = plotOf(result);
  const what = plot ? shows : 'table';
  if (result.kind !== 'rows') return html`<${Notice} tone="good">${DONE[result.kind](result)}<//>`;
  const columns = result.columns.map(({ name, type }, at) => ({
    name: String(at), label: name, kind: NUMBERS.test(type) ? 'number' : 'code', // Preact draws no booleans.
    format: (value) => (value === null ? html`<i class="null">null</i>` : String(value)),
  }));
  return html`
    <div class="bar-of-result">
      <span data-figure="rows">${count(result.values.length)} ${result.values.length === 1 ? 'row' : 'rows'}${result.next ? ', and more' : ''}</span>
      ${plot && html`<span class="switch" role="group" aria-label="Form of the result">
        ${['table', 'plot'].map((form) => html`<button type="button" key=${form} aria-pressed=${what === form}
          onClick=${() => show(form)}>${form === 'table' ? 'Table' : 'Plot'}</button>`)}
      </span>`}
      ${result.next && html`<button type="button" disabled=${isBusy} onClick=${onNext}>More rows</button>`}
    </div>
    ${result.warnings.map((warning) => html`<${Notice} key=${warning} tone="warn">${warning}<//>`)}
    ${what === 'plot'
      ? html`<${Plot} label=${`Result over ${plot.over}`} height=${260} ...${plot} isLive=${false} format=${short} />`
      : html`<${Table} packed label="Result" columns=${columns} empty="The result has no rows."
          rows=${result.values.map((row) => ({ ...row }))} />`}`;
}

export function Console() {
  const state = useSession();
  const input = useRef(null);
  const place = useRef(null);
  const [shown, setShown] = useState({ result: kept.result, error: null, took: null, busy: false });
  useEffect(() => { input.current.focus(); }, []);

  const run = async (next) => {
    const statement = (next ? kept.result.statement : input.current.value).trim().replace(/;\s*$/, '');
    if (!statement) return;
    if (!next) {
      kept.history = [statement, ...kept.history.filter((old) => old !== statement)].slice(0, HISTORY_MAX);
      place.current = null;
    }
    setShown((last) => ({ ...last, busy: true, error: null }));
    const begun = performance.now();
    try {
      const answer = await query(statement, { console: true, rows: 500, ...(next ? { next } : {}) });
      if (answer.kind === 'keyspace') kept.keyspace = answer.keyspace;
      const values = next ? [...kept.result.values, ...answer.values] : answer.values;
      kept.result = { ...answer, values, statement };
      setShown({ result: kept.result, error: null, took: (performance.now() - begun) / 1000, busy: false });
    } catch (error) {
      if (!next) kept.result = null;
      setShown({ result: kept.result, error, took: null, busy: false });
    }
  };
  const recall = (step) => {
    const at = (place.current ?? -1) + step;
    if (at < -1 || at >= kept.history.length) return;
    place.current = at;
    input.current.value = at < 0 ? '' : kept.history[at];
    kept.statement = input.current.value;
  };
  const key = (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
    else if (event.key === 'ArrowUp' && event.altKey) recall(1);
    else if (event.key === 'ArrowDown' && event.altKey) recall(-1);
    else return;
    event.preventDefault();
  };
  return html`
    <${Card} wide>
      <label class="statement">Statement
        <textarea ref=${input} rows="5" spellcheck=${false} autocapitalize="off" autocomplete="off"
          defaultValue=${kept.statement} onInput=${(event) => { kept.statement = event.target.value; }} onKeyDown=${key}
          placeholder="SELECT * FROM system_views.clients"></textarea></label>
      <div class="bar-of-result">
        <button type="button" class="primary" data-run disabled=${shown.busy} onClick=${() => run()}>Run</button>
        <span class="note">Ctrl+Enter runs it, Alt+↑ and Alt+↓ recall earlier ones.
          ${kept.keyspace ? ` Keyspace ${kept.keyspace}.` : ''}
          ${state.user ? ` As ${state.user}.` : ''}</span>
        ${shown.took !== null && html`<span class="note right">${seconds(shown.took)}</span>`}
      </div>
    <//>
    <div aria-live="polite" aria-busy=${shown.busy}>
      <${Failure} error=${shown.error} />
      ${shown.result && html`<${Card} wide><${Result} result=${shown.result} isBusy=${shown.busy}
        onNext=${() => run(shown.result.next)} /><//>`}
      ${!shown.result && !shown.error && html`<p class="empty">The result appears here.
        One statement at a time; it runs with your permissions, timeouts and limits.</p>`}
    </div>`;
}
