// Tables: how large they are, by estimates of the server; what was read and written; and the state of indexes and views.

import { html, useState } from './preact.mjs';
import { query, queryAll, usePoll } from './api.js';
import { bytes, count, percent, seconds, text, yesNo } from './format.js';
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

const STATISTICS = `SELECT keyspace_name, table_name, is_index, reads, read_p99_ms, scans, scan_p99_ms, writes, write_p99_ms,
  tombstones_read, cells_read, disk_bytes, disk_tombstones, disk_versions, cache_hit_rate FROM system_views.table_statistics`;

const number = (value) => (value === null || value === undefined ? undefined : Number(value));
const part = (some, all) => (number(all) > 0 ? number(some) / number(all) : undefined);

async function readStatistics() {
  const { rows } = await queryAll(STATISTICS);
  return rows.filter((row) => !SYSTEM.test(row.keyspace_name)).map((row) => ({
    ...row,
    name: `${row.keyspace_name}.${row.table_name}`,
    kind: row.is_index ? 'index' : 'table',
    met: part(row.tombstones_read, number(row.reads) + number(row.scans)),
    dead: part(row.disk_tombstones, row.disk_versions),
  }));
}

function Statistics() {
  const { data, error } = usePoll(readStatistics, 10000);
  const column = (name, label, format) => ({ name, label, kind: 'number', format: (value) => format(number(value)) });
  const millis = (value) => seconds(value === undefined ? undefined : value / 1000);
  return html`<${Card} wide title="Reads, writes and space" note="counted since the start of the server">
    <${Failure} error=${error} />
    <${Table} label="Reads, writes and space" rows=${data} error=${error} rowKey=${(row) => row.name}
      empty="No table was read or written since the start, or its database is on a cluster."
      sortedBy=${{ name: 'reads', falls: true }}
      columns=${[
        { name: 'name', label: 'Table', kind: 'code' },
        { name: 'kind', label: 'Kind' },
        column('reads', 'Reads', count),
        column('read_p99_ms', 'p99', millis),
        column('scans', 'Pages', count),
        column('scan_p99_ms', 'p99 of pages', millis),
        column('writes', 'Commits', count),
        column('write_p99_ms', 'p99 of commits', millis),
        column('met', 'Tombstones a read', (value) => (value === undefined ? '–' : value.toFixed(1))),
        column('cache_hit_rate', 'From the cache', percent),
        column('disk_bytes', 'On disk', bytes),
        column('dead', 'Tombstones on disk', percent),
      ]} />
    <p class="note">Many tombstones a read mean that deleted rows are read over: delete whole partitions, or wait for
      compaction. carnet table-stats shows all numbers of a table.</p>
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
    <${Statistics} />
    <${Derived} title="Indexes" view="indexes" name="index_name" empty="There are no secondary indexes." />
    <${Derived} title="Materialized views" view="materialized_views" name="view_name" empty="There are no materialized views." />
  </div>`;
}
