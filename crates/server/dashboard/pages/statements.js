// Statements: which take the most time, by their text without values.

import { html } from './preact.mjs';
import { query, useMetrics, usePoll } from './api.js';
import { count, perSecond, seconds, short } from './format.js';
import { Card, columnsOf, Failure, hasView, NoView, Table } from './parts.js';

const DURATION = 'carnet_server_request_duration_seconds';

function ByText() {
  const isThere = hasView('statement_statistics');
  const { data, error } = usePoll(() => (isThere ? query('SELECT * FROM system_views.statement_statistics', { rows: 500 }) : null), 4000);
  const order = [
    'statement', 'table_name', 'count', 'total_seconds', 'mean_micros', 'p50_micros', 'p95_micros', 'p99_micros', 'max_micros',
    'rows_read', 'rows_returned', 'conflicts', 'errors',
  ];
  return html`<${Card} wide title="By text" note="values are left out">
    <${Failure} error=${error} />
    ${!isThere && html`<${NoView} name="statement_statistics" what="Statements are not counted by their text." />`}
    ${data && html`<${Table} label="Statements by text" rows=${data.rows} columns=${columnsOf(data, order, ['rank', 'fingerprint'])}
      sortedBy=${{ name: 'total_seconds', falls: true }}
      empty="No statement has ended yet." />`}
  <//>`;
}

function ByKind() {
  const metrics = useMetrics();
  const rows = [...metrics.by(`${DURATION}_count`, 'opcode')].map(([opcode, all]) => ({
    opcode,
    all,
    rate: metrics.rate(`${DURATION}_count`, { opcode }),
    mean: metrics.rate(`${DURATION}_sum`, { opcode }) / metrics.rate(`${DURATION}_count`, { opcode }),
    p50: metrics.percentile(DURATION, 0.5, { opcode }),
    p95: metrics.percentile(DURATION, 0.95, { opcode }),
    p99: metrics.percentile(DURATION, 0.99, { opcode }),
  })).filter((row) => row.all > 0);
  return html`<${Card} wide title="By kind of request" note="rates and latencies of the last 10 s">
    <${Table} label="Statements by kind" rows=${metrics.last ? rows : null}
      empty="No statement has ended yet." sortedBy=${{ name: 'rate', falls: true }}
      columns=${[
        { name: 'opcode', label: 'Request' },
        { name: 'rate', label: 'Rate', kind: 'number', format: perSecond },
        { name: 'mean', label: 'Mean', kind: 'number', format: seconds },
        { name: 'p50', label: 'Median', kind: 'number', format: seconds },
        { name: 'p95', label: '95 %', kind: 'number', format: seconds },
        { name: 'p99', label: '99 %', kind: 'number', format: seconds },
        { name: 'all', label: 'Since the start', kind: 'number', format: count },
      ]} />
  <//>`;
}

function Errors() {
  const metrics = useMetrics();
  const rows = [...metrics.by('carnet_server_errors_total', 'code')]
    .filter(([, all]) => all > 0)
    .map(([code, all]) => ({ code, all, rate: metrics.rate('carnet_server_errors_total', { code }) }));
  return html`<${Card} title="Errors by code">
    <${Table} label="Errors by code" rows=${metrics.last ? rows : null} empty="No statement has failed."
      sortedBy=${{ name: 'all', falls: true }}
      columns=${[
        { name: 'code', label: 'Code' },
        { name: 'rate', label: 'Rate', kind: 'number', format: perSecond },
        { name: 'all', label: 'Since the start', kind: 'number', format: count },
      ]} />
  <//>`;
}

function Commits() {
  const metrics = useMetrics();
  const rows = [...metrics.by('carnet_commits_total', 'outcome')]
    .map(([outcome, all]) => ({ outcome, all, rate: metrics.rate('carnet_commits_total', { outcome }) }));
  return html`<${Card} title="Commits by outcome">
    <${Table} label="Commits by outcome" rows=${metrics.last ? rows : null} empty="Nothing was committed."
      columns=${[
        { name: 'outcome', label: 'Outcome' },
        { name: 'rate', label: 'Rate', kind: 'number', format: perSecond },
        { name: 'all', label: 'Since the start', kind: 'number', format: short },
      ]} />
  <//>`;
}

export function Statements() {
  return html`<div class="grid"><${ByText} /><${ByKind} /><${Errors} /><${Commits} /></div>`;
}
