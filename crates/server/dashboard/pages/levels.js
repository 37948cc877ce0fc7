// Service levels: their options, and how much each runs, waits and is refused.

import { html } from './preact.mjs';
import { query, useMetrics, usePoll } from './api.js';
import { count, perSecond, seconds } from './format.js';
import { Card, columnsOf, Failure, Table } from './parts.js';

function Load() {
  const metrics = useMetrics();
  const rows = [...metrics.by('carnet_admission_admitted_total', 'level').keys()].map((level) => {
    const admitted = metrics.rate('carnet_admission_admitted_total', { level });
    const waited = metrics.rate('carnet_admission_waited_seconds_total', { level });
    return {
      level,
      admitted,
      running: metrics.sum('carnet_admission_running', { level }),
      waiting: metrics.sum('carnet_admission_waiting', { level }),
      wait: admitted > 0 ? waited / admitted : undefined,
      throttled: metrics.rate('carnet_admission_throttled_total', { level }),
      refused: metrics.rate('carnet_shed_total', { level }) ?? 0,
      timeouts: metrics.rate('carnet_statement_timeouts_total', { level }) ?? 0,
    };
  });
  return html`<${Card} wide title="Load by level" note="rates of the last 10 s">
    <${Table} label="Load by level" rows=${metrics.last ? rows : null} empty="No level has run a statement."
      sortedBy=${{ name: 'admitted', falls: true }}
      columns=${[
        { name: 'level', label: 'Level' },
        { name: 'admitted', label: 'Admitted', kind: 'number', format: perSecond },
        { name: 'running', label: 'Running', kind: 'number', format: count },
        { name: 'waiting', label: 'Waiting', kind: 'number', format: count },
        { name: 'wait', label: 'Mean wait', kind: 'number', format: seconds },
        { name: 'throttled', label: 'Slowed down', kind: 'number', format: perSecond },
        { name: 'refused', label: 'Refused', kind: 'number', format: perSecond },
        { name: 'timeouts', label: 'Timed out', kind: 'number', format: perSecond },
      ]} />
  <//>`;
}

function Listed({ title, statement, empty }) {
  const { data, error } = usePoll(() => query(statement, { rows: 1000 }), 10000);
  return html`<${Card} wide title=${title}>
    <${Failure} error=${error} />
    ${data && html`<${Table} label=${title} rows=${data.rows} columns=${columnsOf(data)} empty=${empty} />`}
  <//>`;
}

export function Levels() {
  return html`<div class="grid">
    <${Load} />
    <${Listed} title="Levels" statement="LIST ALL SERVICE LEVELS"
      empty="There are no levels of your own: all statements share the server's defaults. CREATE SERVICE LEVEL makes one." />
    <${Listed} title="Attached to users" statement="LIST ALL ATTACHED SERVICE LEVELS"
      empty="No level is attached to a user: ATTACH SERVICE LEVEL does it." />
  </div>`;
}
