// Overview: how much the server does, how fast, what it waits for, and what holds its memory and disk.

import { html } from './preact.mjs';
import { query, useMetrics, usePoll, useSession } from './api.js';
import { bytes, bytesPerSecond, count, percent, perSecond, seconds, short } from './format.js';
import { history, percentile, rate } from './metrics.js';
import { Bar, Card, clamp, Failure, Notice, Table, Tile, Tiles } from './parts.js';
import { Plot } from './plot.js';

const DURATION = 'carnet_server_request_duration_seconds';
const STATEMENTS = { opcode: ['query', 'execute', 'batch'] };
const OPCODES = [['execute', 'prepared'], ['query', 'query'], ['batch', 'batch'], ['prepare', 'prepare']];

for (const [opcode] of OPCODES) {
  history.track(`requests ${opcode}`, (from, to) => rate(from, to, 'carnet_server_requests_total', { opcode }));
}
for (const fraction of [0.5, 0.95, 0.99]) {
  history.track(`latency ${fraction}`, (from, to) => percentile(from, to, DURATION, fraction, STATEMENTS));
}
history.track('errors', (from, to) => rate(from, to, 'carnet_server_errors_total'));
history.track('refused', (from, to) => rate(from, to, 'carnet_shed_total'));
history.track('timeouts', (from, to) => rate(from, to, 'carnet_statement_timeouts_total'));
history.track('log bytes', (from, to) => rate(from, to, 'carnet_storage_log_bytes_total'));
history.track('flush bytes', (from, to) => rate(from, to, 'carnet_storage_flush_bytes_total'));
history.track('compaction bytes', (from, to) => rate(from, to, 'carnet_storage_compaction_bytes_total'));

// Conditions that need an operator now, in words.
const ALARMS = [
  ['carnet_storage_stopped', 'bad', 'The store has stopped and takes no writes until the next start. /readyz and the log name the cause.'],
  ['carnet_storage_disk_full', 'bad', 'The disk is full: writes are refused. They go on by themselves once there is space.'],
  ['carnet_storage_writes_starved', 'bad', 'The process has too few file descriptors or too little memory: writes are refused.'],
  ['carnet_storage_tables_damaged', 'bad', 'Files are damaged: reads of a part of the data fail. /readyz names the files; restore a backup.'],
  ['carnet_cluster_failing', 'bad', 'The last request to the cluster failed.'],
];

export function Alarms({ metrics }) {
  return ALARMS.filter(([name]) => metrics.sum(name) > 0)
    .map(([name, tone, text]) => html`<${Notice} key=${name} tone=${tone}>${text}<//>`);
}

const OWNERS = {
  requests: 'requests that are not answered yet',
  answers: 'answers that are made or wait to be read',
  connections: 'buffers of connections',
  prepared_statements: 'prepared statements',
  transactions: 'open transactions',
  memtables: 'memtables: writes that are not flushed yet',
  cache: 'cache of blocks',
  disk_reads: 'reads from the disk',
  tables: 'indexes and filters of open tables',
};

function Memory({ metrics }) {
  const owners = [...metrics.by('carnet_memory_bytes', 'owner')].map(([owner, used]) => ({ owner, used }));
  const total = owners.reduce((all, { used }) => all + used, 0);
  const resident = metrics.sum('process_resident_memory_bytes');
  const rows = owners.sort((one, other) => other.used - one.used);
  return html`<${Card} title="Memory by owner" note=${`${bytes(total)} of ${bytes(resident)} resident`}>
    <${Table} label="Memory by owner" rows=${rows} empty="The server reports no owners of memory."
      columns=${[
        { name: 'owner', label: 'Owner', format: (owner) => html`<span title=${OWNERS[owner] ?? ''}>${owner.replaceAll('_', ' ')}</span>` },
        { name: 'used', label: 'Held', kind: 'number', format: bytes },
        { name: 'share', label: 'Share', cell: (row) => html`<${Bar} share=${total > 0 ? row.used / total : 0} />` },
      ]} />
  <//>`;
}

function Bottleneck() {
  const state = useSession();
  const { data, error } = usePoll(() => (state?.open ? query('SHOW BOTTLENECK') : null));
  const body = () => {
    if (!state?.open) return html`<p class="empty">Log in to see what statements wait for.</p>`;
    if (error) return html`<${Failure} error=${error} />`;
    if (!data) return html`<p class="empty">The server is asked.</p>`;
    const verdict = data.rows.find((row) => row.rank === 0);
    const causes = data.rows.filter((row) => row.rank > 0);
    return html`<p class="verdict" data-figure="verdict">${verdict?.explanation ?? 'The server has no diagnosis.'}</p>
      <${Table} label="Causes of waiting" rows=${causes} empty="No statement has waited in the last 10 s."
        columns=${[
          { name: 'why', label: 'Waits for' },
          { name: 'level', label: 'Level' },
          { name: 'share', label: 'Share', kind: 'number', format: percent },
          { name: 'waited_seconds', label: 'Waited', kind: 'number', format: seconds },
          { name: 'waits', label: 'Waits', kind: 'number', format: (waits) => count(Number(waits)) },
          { name: 'table_name', label: 'Table' },
          { name: 'statement', label: 'Statement', kind: 'code long', format: clamp },
          { name: 'explanation', label: 'Meaning' },
        ]} />`;
  };
  return html`<${Card} wide title="Bottleneck" note="waits of statements in the last 10 s">${body()}<//>`;
}

export function Overview() {
  const metrics = useMetrics();
  if (!metrics.last) {
    return metrics.error
      ? html`<${Notice} tone="warn">${metrics.error}<//>`
      : html`<p class="empty">The server is asked.</p>`;
  }
  const statements = metrics.rate('carnet_server_requests_total', STATEMENTS);
  const errors = metrics.rate('carnet_server_errors_total');
  const refused = metrics.rate('carnet_shed_total');
  const conflicts = metrics.rate('carnet_commits_total', { outcome: 'conflict' });
  const commits = metrics.rate('carnet_commits_total', { outcome: 'committed' });
  const points = (name) => metrics.points(name);
  return html`
    ${metrics.error && html`<${Notice} tone="bad">${metrics.error}<//>`}
    <${Alarms} metrics=${metrics} />
    <${Tiles}>
      <${Tile} id="statements" label="Statements" value=${perSecond(statements)} note=${`${short(metrics.sum('carnet_server_requests_total', STATEMENTS))} since the start`} />
      <${Tile} id="p50" label="Latency, median" value=${seconds(metrics.percentile(DURATION, 0.5, STATEMENTS))} />
      <${Tile} id="p99" label="Latency, 99 %" value=${seconds(metrics.percentile(DURATION, 0.99, STATEMENTS))} />
      <${Tile} id="errors" label="Errors" value=${perSecond(errors)} tone=${errors > 0 ? 'warn' : ''} note=${`${short(metrics.sum('carnet_server_errors_total'))} since the start`} />
      <${Tile} id="refused" label="Refused for overload" value=${perSecond(refused)} tone=${refused > 0 ? 'bad' : ''} />
      <${Tile} id="running" label="Statements now" value=${count(metrics.sum('carnet_server_requests_in_flight'))} note=${`${count(metrics.sum('carnet_admission_waiting'))} wait for admission`} />
      <${Tile} id="connections" label="Connections" value=${count(metrics.sum('carnet_server_connections'))} />
      <${Tile} id="open" label="Open transactions" value=${count(metrics.sum('carnet_open_transactions'))} />
      <${Tile} id="commits" label="Commits" value=${perSecond(commits)} note=${`${perSecond(conflicts)} conflicts`} />
      <${Tile} id="cpu" label="Processor" value=${percent(metrics.rate('process_cpu_seconds_total'))} note="of one core" />
    <//>
    <div class="grid">
      <${Card} title="Throughput" note="statements per second">
        <${Plot} label="Statements per second" times=${metrics.times} format=${short}
          lines=${OPCODES.map(([opcode, label]) => ({ label, points: points(`requests ${opcode}`) }))} />
      <//>
      <${Card} title="Latency" note="from the last byte of a request to its answer">
        <${Plot} label="Latency" times=${metrics.times} format=${seconds}
          lines=${[[0.5, 'median'], [0.95, '95 %'], [0.99, '99 %']].map(([fraction, label]) =>
            ({ label, points: points(`latency ${fraction}`) }))} />
      <//>
      <${Card} title="Errors" note="per second">
        <${Plot} label="Errors per second" times=${metrics.times} format=${short}
          lines=${['errors', 'refused', 'timeouts'].map((name) => ({ label: name, points: points(name) }))} />
      <//>
      <${Card} title="Disk writes" note="bytes per second">
        <${Plot} label="Bytes written per second" times=${metrics.times} format=${bytesPerSecond} steps="bytes"
          lines=${[['log bytes', 'log'], ['flush bytes', 'flushes'], ['compaction bytes', 'compaction']].map(([name, label]) =>
            ({ label, points: points(name) }))} />
      <//>
      <${Bottleneck} />
      <${Memory} metrics=${metrics} />
      <${Disk} metrics=${metrics} />
    </div>`;
}

function Disk({ metrics }) {
  if (metrics.sum('carnet_storage_table_bytes') === undefined) {
    return html`<${Card} title="Disk"><p class="empty">The data is in a cluster, not on a disk of this server.</p><//>`;
  }
  const rows = [
    ['Tables', bytes(metrics.sum('carnet_storage_table_bytes')), `${count(metrics.sum('carnet_storage_tables'))} files`],
    ['Memtables, not flushed yet', bytes(metrics.sum('carnet_storage_memtable_bytes')), `${count(metrics.sum('carnet_storage_memtables_waiting'))} wait`],
    ['Log', bytesPerSecond(metrics.rate('carnet_storage_log_bytes_total')), `${perSecond(metrics.rate('carnet_storage_log_syncs_total'))} syncs`],
    ['Blocks read', perSecond(metrics.rate('carnet_storage_block_reads_total')), `${percent(hitRate(metrics))} from the cache`],
    ['Open files', count(metrics.sum('process_open_fds')), `of ${count(metrics.sum('process_max_fds'))}`],
  ].map(([what, value, note]) => ({ what, value, note }));
  return html`<${Card} title="Disk">
    <${Table} label="Disk" rows=${rows} columns=${[
      { name: 'what', label: 'What', cell: (row) => row.what },
      { name: 'value', label: 'Now', kind: 'number', cell: (row) => row.value },
      { name: 'note', label: '', cell: (row) => html`<span class="muted">${row.note}</span>` },
    ]} />
  <//>`;
}

// Share of blocks that were in the cache, in the last seconds, or since the start if none was read.
export function hitRate(metrics) {
  const share = (value) => {
    const [hits, reads] = ['carnet_storage_block_hits_total', 'carnet_storage_block_reads_total'].map(value);
    return hits + reads > 0 ? hits / (hits + reads) : undefined;
  };
  return share((name) => metrics.rate(name) ?? 0) ?? share((name) => metrics.sum(name) ?? 0);
}
