// Activity: statements that run, open transactions and connections, with the means to end them.

import { html, useState } from './preact.mjs';
import { query, usePoll } from './api.js';
import { count, duration, shown, text } from './format.js';
import { Card, clamp, columnsOf, Confirm, Failure, hasView, NoView, Table } from './parts.js';

// A button that asks first, and then ends a statement or transaction.
function Kill({ id, what, detail, statement, onDone }) {
  const [asks, setAsks] = useState(false);
  return html`<button type="button" class="danger small" data-kill=${id} onClick=${() => setAsks(true)}>Kill</button>
    ${asks && html`<${Confirm} question=${`Kill this ${what}?`} detail=${detail} action="Kill"
      onClose=${() => setAsks(false)}
      onConfirm=${async () => { await query(statement); onDone(); }} />`}`;
}

function Statements() {
  const { data, error, again } = usePoll(() => (hasView('queries') ? query('SELECT * FROM system_views.queries', { rows: 500 }) : null));
  if (!hasView('queries')) {
    return html`<${Card} wide title="Running statements">
      <${NoView} name="queries" what="Running statements cannot be listed." /><//>`;
  }
  const columns = data && [
    {
      name: 'kill', label: 'Kill', cell: (row) => html`<${Kill} id=${row.id} what="statement" onDone=${again}
        detail="Its client gets an error. What it has not committed has no effect."
        statement=${`KILL STATEMENT ${row.id}`} />`,
    },
    ...columnsOf(data, ['age_seconds', 'state', 'statement', 'table_name', 'waits_for', 'lost_row', 'client', 'user_name', 'level', 'class', 'rows_read', 'bytes_read'], ['task', 'thread_id']),
  ];
  return html`<${Card} wide title="Running statements" note=${data ? shown(data) : ''}>
    <${Failure} error=${error} />
    ${data && html`<${Table} label="Running statements" rows=${data.rows} columns=${columns}
      rowKey=${(row) => row.id} empty="No statement runs or waits." />`}
  <//>`;
}

function Transactions() {
  const { data, error, again } = usePoll(() => query('SELECT * FROM system_views.transactions', { rows: 500 }));
  const columns = [
    {
      name: 'kill', label: 'Kill', cell: (row) => (row.id === null ? '' : html`<${Kill} id=${row.id}
        what="transaction" onDone=${again} statement=${`KILL TRANSACTION ${row.id}`}
        detail="It is rolled back: its changes have no effect, and its next statement fails." />`),
    },
    { name: 'age_seconds', label: 'Age', kind: 'number', format: (age) => duration(age) },
    { name: 'idle_seconds', label: 'Idle', kind: 'number', format: (idle) => (idle === null ? 'runs' : duration(idle)) },
    { name: 'client', label: 'Client' },
    { name: 'statement', label: 'Last statement', kind: 'code long', format: clamp },
    { name: 'isolation', label: 'Isolation' },
    { name: 'id', label: 'Id', kind: 'code', format: text },
    { name: 'read_timestamp', label: 'Reads at', kind: 'number', format: String },
  ];
  return html`<${Card} wide title="Open transactions" note=${data ? shown(data) : ''}>
    <${Failure} error=${error} />
    <${Table} label="Open transactions" rows=${data?.rows} error=${error} columns=${columns}
      rowKey=${(row) => row.id ?? `${row.read_timestamp} ${row.start_timestamp} ${row.number}`}
      empty="No transaction is open." />
    <p class="note">The one with the oldest snapshot comes first: it keeps old versions from being removed.
      A transaction without an id belongs to a statement that runs.</p>
  <//>`;
}

// The rows of a virtual table of system_views, if the server has it.
function View({ view, rows, every, title, note, empty, first, hidden }) {
  const isThere = hasView(view);
  const { data, error } = usePoll(() => (isThere ? query(`SELECT * FROM system_views.${view}`, { rows }) : null), every);
  if (!isThere) return null;
  return html`<${Card} wide title=${title} note=${note}>
    <${Failure} error=${error} />
    ${data && html`<${Table} label=${title} rows=${data.rows} empty=${empty} columns=${columnsOf(data, first, hidden)} />`}
  <//>`;
}

const RowWaits = () => html`<${View} view="row_waits" rows=${500} title="Waits for rows"
  note="statements that take turns at a row, the longest queue first" empty="No statement waits for a row."
  first=${['queue', 'place', 'state', 'table_name', 'key', 'age_seconds', 'statement', 'client', 'user_name', 'query_id']} />`;

const LostRows = () => html`<${View} view="lost_rows" rows=${100} every=${4000} title="Contended rows"
  note="the rows of the last lost attempts, the most often lost first" empty="No statement has lost a row."
  first=${['table_name', 'key', 'attempts', 'statements', 'last']} hidden=${['rank']} />`;

const Conflicts = () => html`<${View} view="conflicts" rows=${200} every=${4000} title="Lost rows"
  note="statements that another transaction was faster than, newest first" empty="No statement has lost a row."
  first=${['at', 'table_name', 'key', 'statement', 'client', 'user_name', 'outcome', 'attempts']} />`;

function Clients() {
  const { data, error } = usePoll(() => query('SELECT * FROM system_views.clients', { rows: 1000 }), 4000);
  const columns = [
    { name: 'address', label: 'Address', kind: 'code' },
    { name: 'port', label: 'Port', kind: 'number' },
    { name: 'username', label: 'User' },
    { name: 'driver_name', label: 'Driver' },
    { name: 'driver_version', label: 'Version' },
    { name: 'request_count', label: 'Requests', kind: 'number', format: (requests) => count(Number(requests)) },
    { name: 'connection_stage', label: 'Stage' },
    { name: 'ssl_enabled', label: 'TLS', format: (tls) => (tls ? 'yes' : 'no') },
  ];
  return html`<${Card} wide title="Clients" note=${data ? shown(data) : ''}>
    <${Failure} error=${error} />
    <${Table} label="Clients" rows=${data?.rows} error=${error} columns=${columns} empty="No client is connected."
      rowKey=${(row) => `${row.address} ${row.port} ${row.driver_name}`}
      sortedBy=${{ name: 'request_count', falls: true }} />
  <//>`;
}

export function Activity() {
  return html`<div class="grid"><${Statements} /><${Transactions} /><${RowWaits} /><${LostRows} /><${Conflicts} /><${Clients} /></div>`;
}
