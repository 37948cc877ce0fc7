// Settings: the effective values that the server tells.

import { html } from './preact.mjs';
import { query, useMetrics, usePoll, useSession } from './api.js';
import { bytes, count, duration, text } from './format.js';
import { Card, Failure, Table } from './parts.js';

function Process() {
  const metrics = useMetrics();
  const state = useSession();
  const started = metrics.sum('process_start_time_seconds');
  const rows = metrics.last && [
    ['Version', text(state?.version)],
    ['Started', `${new Date(started * 1000).toLocaleString('sv')} (${duration(metrics.last.at - started)} ago)`],
    ['Logged in as', state?.user ?? 'no user: this server has none'],
    ['Threads', count(metrics.sum('process_threads'))],
    ['Resident memory', bytes(metrics.sum('process_resident_memory_bytes'))],
    ['Memory budget of the engine', bytes(metrics.sum('carnet_storage_memory_budget_bytes'))],
    ['Open files', `${count(metrics.sum('process_open_fds'))} of ${count(metrics.sum('process_max_fds'))}`],
  ].map(([name, value]) => ({ name, value }));
  return html`<${Card} title="Process">
    <${Table} label="Process" rows=${rows} columns=${[
      { name: 'name', label: 'What', cell: (row) => row.name },
      { name: 'value', label: 'Value', cell: (row) => row.value },
    ]} />
  <//>`;
}

export function Settings() {
  const { data, error } = usePoll(() => query('SELECT name, value FROM system_views.settings', { rows: 1000 }), 30000);
  return html`<div class="grid">
    <${Card} title="Settings" note="system_views.settings: Carnet's own as section.name, others under Cassandra's names">
      <${Failure} error=${error} />
      <${Table} label="Settings" rows=${data?.rows} error=${error} rowKey=${(row) => row.name} empty="The server tells no settings."
        sortedBy=${{ name: 'name' }} columns=${[
          { name: 'name', label: 'Setting', kind: 'code' },
          { name: 'value', label: 'Value', kind: 'code', format: text },
        ]} />
    <//>
    <${Process} />
  </div>`;
}
