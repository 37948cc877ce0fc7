// Tables: how large they are, by estimates of the server; and the state of indexes and views.

import { html, useState } from './preact.mjs';
import { query, queryAll, usePoll } from './api.js';
import { bytes, count, text, yesNo } from './format.js';
import { Card, Failure, Table } from './parts.js';

const SYSTEM = /^system(_|$)/;

async function read() {
  const [tables, views, sizes] = await Promise.all([
    queryAll('SELECT keyspace_name, table_name, default_time_to_live, comment FROM system_schema.tables'),
    queryAll('SELECT keyspace_name, view_name, base_table_name FROM system_schema.views'),
    queryAll('SELECT keyspace_name, table_name, partitions_count, mean_partition_size FROM system.size_estimates'),
  ]);
  const estimates = new Map();
  for (const row of sizes.rows) {
    const key = `${row.keyspace_name}.${row.table_name}`;
    const [partitions, mean] = [Number(row.partitions_count), Number(row.mean_partition_size)];
    const known = estimates.get(key) ?? { partitions: 0, size: 0 };
    estimates.set(key, { partitions: known.partitions + partitions, size: known.size + partitions * mean });
  }
  const listed = [
    ...tables.rows.map((row) => ({ ...row, kind: 'table' })),
    ...views.rows.map((row) => ({ ...row, table_name: row.view_name, kind: `view of ${row.base_table_name}` })),
  ];
  return listed.filter((row) => !SYSTEM.test(row.keyspace_name)).map((row) => {
    const name = `${row.keyspace_name}.${row.table_name}`;
    const { partitions, size } = estimates.get(name) ?? {};
    return { ...row, name, partitions, size, mean: partitions > 0 ? size / partitions : undefined };
  });
}

function Sizes() {
  const [filter, setFilter] = useState('');
  const { data, error, again } = usePoll(read, 30000);
  const rows = data?.filter((row) => row.name.includes(filter.trim()));
  const total = data?.reduce((all, row) => all + (row.size ?? 0), 0);
  return html`<${Card} wide title="Sizes" note=${data ? `${count(data.length)} tables, about ${bytes(total)}` : ''}
    actions=${html`
      <label class="inline">Find <input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
      <button type="button" onClick=${again}>Estimate again</button>`}>
    <${Failure} error=${error} />
    <${Table} label="Sizes of tables" rows=${rows} error=${error} rowKey=${(row) => row.name}
      empty=${filter ? 'No table has such a name.' : 'There are no tables yet: CREATE TABLE makes one.'}
      sortedBy=${{ name: 'size', falls: true }}
      columns=${[
        { name: 'name', label: 'Table', kind: 'code' },
        { name: 'kind', label: 'Kind' },
        { name: 'size', label: 'Size, about', kind: 'number', format: bytes },
        { name: 'partitions', label: 'Partitions, about', kind: 'number', format: count },
        { name: 'mean', label: 'Mean partition', kind: 'number', format: bytes },
        { name: 'default_time_to_live', label: 'Time to live', kind: 'number', format: (secs) => (secs > 0 ? `${count(secs)}\u202fs` : '–') },
      ]} />
    <p class="note">Estimates from samples of up to 64 rows at 16 places: small tables are counted. Sizes are those of
      rows before compression. They are made again each 30 s.</p>
  <//>`;
}

function Derived({ title, view, name, empty }) {
  const { data, error } = usePoll(() => query(`SELECT * FROM system_views.${view}`, { rows: 1000 }), 10000);
  return html`<${Card} wide title=${title}>
    <${Failure} error=${error} />
    <${Table} label=${title} rows=${data?.rows} error=${error} empty=${empty} columns=${[
      { name: 'keyspace_name', label: 'Keyspace', kind: 'code' },
      { name, label: 'Name', kind: 'code' },
      { name: view === 'indexes' ? 'table_name' : 'base_table_name', label: 'Table', kind: 'code' },
      { name: 'state', label: 'State' },
      { name: 'is_queryable', label: 'Can be queried', format: yesNo },
      { name: 'rows_read', label: 'Rows read', kind: 'number', format: (rows) => count(Number(rows)) },
      { name: 'failure', label: 'Failure', format: text },
    ]} />
  <//>`;
}

export function Tables() {
  return html`<div class="grid">
    <${Sizes} />
    <${Derived} title="Indexes" view="indexes" name="index_name" empty="There are no secondary indexes." />
    <${Derived} title="Materialized views" view="materialized_views" name="view_name" empty="There are no materialized views." />
  </div>`;
}
