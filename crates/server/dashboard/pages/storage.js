// Storage: levels, flushes and compactions, the throttle of writers, the cache, and the device.

import { html } from './preact.mjs';
import { useMetrics } from './api.js';
import { bytes, bytesPerSecond, count, percent, perSecond, seconds } from './format.js';
import { history, rate } from './metrics.js';
import { hitRate, Alarms } from './overview.js';
import { Bar, Card, Notice, Table, Tile, Tiles } from './parts.js';
import { Plot } from './plot.js';

const CLASSES = ['wal', 'read', 'flush', 'compaction', 'maintenance'];

history.track('level0', (_, to) => to.values.get('carnet_storage_level0_tables')?.[0].value);
history.track('throttle', (from, to) => rate(from, to, 'carnet_wait_seconds_total', { why: 'throttle' }));

export function Storage() {
  const metrics = useMetrics();
  if (!metrics.last) return html`<p class="empty">${metrics.error ?? 'The server is asked.'}</p>`;
  if (metrics.sum('carnet_storage_tables') === undefined) {
    return html`<${Notice}>The data is in a cluster: this server has no storage of its own. The page Cluster has its state.<//>`;
  }
  const total = (name) => metrics.sum(`carnet_storage_${name}`);
  const level0 = total('level0_tables');
  const written = total('log_bytes_total');
  const amplified = written > 0
    ? (written + total('flush_bytes_total') + total('compaction_bytes_total')) / written : undefined;
  const throttled = metrics.rate('carnet_wait_seconds_total', { why: 'throttle' });
  return html`
    <${Alarms} metrics=${metrics} />
    <${Tiles} four>
      <${Tile} id="tables" label="Tables" value=${bytes(total('table_bytes'))} note=${`${count(total('tables'))} files${diskNote(metrics)}`} />
      <${Tile} id="level0" label="Level 0" value=${count(level0)} note=${bytes(total('level0_bytes'))} />
      <${Tile} id="deeper" label="Deeper levels" value=${bytes(total('table_bytes') - total('level0_bytes'))} note=${`${count(total('tables') - level0)} files`} />
      <${Tile} id="memtables" label="Memtables" value=${bytes(total('memtable_bytes'))} note=${`${count(total('memtables_waiting'))} wait for their flush`} tone=${total('memtables_waiting') > 1 ? 'warn' : ''} />
      <${Tile} id="amplification" label="Bytes written for one" value=${amplified === undefined ? '–' : amplified.toFixed(2)} note="log, flushes, compaction" />
      <${Tile} id="throttle" label="Writers slowed" value=${seconds(throttled)} note="of waiting per second" tone=${throttled > 0 ? 'warn' : ''} />
      <${Tile} id="hits" label="Cache hits" value=${percent(hitRate(metrics))} note=${`${bytes(total('cache_bytes'))} held`} />
      <${Tile} id="quarantined" label="Quarantined" value=${count(total('tables_quarantined'))} tone=${total('tables_quarantined') > 0 ? 'bad' : ''} note="files that cannot be read" />
    <//>
    <div class="grid">
      <${Card} title="Written" note="bytes per second">
        <${Plot} label="Bytes written per second" times=${metrics.times} format=${bytesPerSecond} steps="bytes"
          lines=${[['log bytes', 'log'], ['flush bytes', 'flushes'], ['compaction bytes', 'compaction']].map(([name, label]) =>
            ({ label, points: metrics.points(name) }))} />
      <//>
      <${Card} title="Tables of level 0" note="each is searched by reads">
        <${Plot} label="Tables of level 0" times=${metrics.times} format=${count} steps="whole"
          lines=${[{ label: 'tables', points: metrics.points('level0') }]} />
      <//>
      <${Levels} metrics=${metrics} />
      <${Work} metrics=${metrics} />
      <${Reads} metrics=${metrics} />
      <${Device} metrics=${metrics} />
      <${Retries} metrics=${metrics} />
    </div>`;
}

// The space that is left, if the server knows it.
function diskNote(metrics) {
  const free = metrics.sum('carnet_storage_disk_free_bytes');
  return metrics.sum('carnet_storage_disk_size_bytes') > 0 ? `, ${bytes(free)} free on the disk` : '';
}

function Levels({ metrics }) {
  const bytesOf = metrics.by('carnet_storage_level_bytes', 'level');
  const all = [...bytesOf.values()].reduce((sum, one) => sum + one, 0);
  const rows = [...metrics.by('carnet_storage_level_tables', 'level')]
    .map(([level, tables]) => ({ level: Number(level), tables, size: bytesOf.get(level) }))
    .filter((row) => row.tables > 0);
  return html`<${Card} wide title="Levels" note=${`${bytes(all)} in ${count(total(metrics, 'tables'))} files`}>
    <${Table} label="Levels" rows=${rows} empty="No memtable was flushed yet: all data is in the log and in memory." columns=${[
      { name: 'level', label: 'Level', kind: 'number', format: String },
      { name: 'tables', label: 'Files', kind: 'number', format: count },
      { name: 'size', label: 'Size', kind: 'number', format: bytes },
      { name: 'share', label: 'Share', cell: (row) => html`<${Bar} share=${all > 0 ? row.size / all : 0} />` },
    ]} />
  <//>`;
}

const total = (metrics, name) => metrics.sum(`carnet_storage_${name}`);

function Figures({ title, label, rows }) {
  return html`<${Card} title=${title}>
    <${Table} label=${label ?? title} rows=${rows.map(([what, value, note]) => ({ what, value, note }))} columns=${[
      { name: 'what', label: 'What', cell: (row) => row.what },
      { name: 'value', label: 'Last 10 s', kind: 'number', cell: (row) => row.value },
      { name: 'note', label: 'Since the start', kind: 'number', cell: (row) => row.note },
    ]} />
  <//>`;
}

const rateOf = (metrics, name) => perSecond(metrics.rate(`carnet_storage_${name}`));
const sumOf = (metrics, name) => count(metrics.sum(`carnet_storage_${name}`));
const pair = (metrics, what, name) => [what, rateOf(metrics, name), sumOf(metrics, name)];

function Work({ metrics }) {
  return html`<${Figures} title="Background work" rows=${[
    pair(metrics, 'Records appended to the log', 'appends_total'),
    pair(metrics, 'Syncs of the log', 'log_syncs_total'),
    pair(metrics, 'Flushes', 'flushes_total'),
    pair(metrics, 'Compactions', 'compactions_total'),
    ['Bytes flushed', bytesPerSecond(metrics.rate('carnet_storage_flush_bytes_total')), bytes(metrics.sum('carnet_storage_flush_bytes_total'))],
    ['Bytes compacted', bytesPerSecond(metrics.rate('carnet_storage_compaction_bytes_total')), bytes(metrics.sum('carnet_storage_compaction_bytes_total'))],
    pair(metrics, 'Appends refused: memtables wait', 'appends_overloaded_total'),
  ]} />`;
}

function Reads({ metrics }) {
  return html`<${Figures} title="Reads" rows=${[
    pair(metrics, 'Point reads', 'gets_total'),
    pair(metrics, 'Pages of ranges', 'pages_total'),
    pair(metrics, 'Blocks in the cache', 'block_hits_total'),
    pair(metrics, 'Blocks from the disk', 'block_reads_total'),
    pair(metrics, 'Blocks read ahead', 'block_reads_ahead_total'),
    pair(metrics, 'Tables skipped by a Bloom filter', 'bloom_negatives_total'),
    pair(metrics, 'Hidden cells skipped', 'page_cells_hidden_total'),
    pair(metrics, 'Deltas merged', 'deltas_merged_total'),
  ]} />`;
}

function Device({ metrics }) {
  const rows = [...metrics.by('carnet_io_dispatched_total', 'class').keys()].map((name) => {
    const wanted = { class: name };
    const requests = metrics.rate('carnet_io_dispatched_total', wanted);
    const mean = (metric) => (requests > 0 ? metrics.rate(metric, wanted) / requests : undefined);
    return {
      name,
      requests,
      bytes: metrics.rate('carnet_io_bytes_total', wanted),
      queued: metrics.sum('carnet_io_queued', wanted),
      wait: mean('carnet_io_wait_seconds_total'),
      device: mean('carnet_io_device_seconds_total'),
    };
  }).sort((one, other) => CLASSES.indexOf(one.name) - CLASSES.indexOf(other.name));
  return html`<${Card} wide title="Disk requests by class">
    <${Table} label="Disk requests by class" rows=${rows} empty="The disk is not scheduled here." columns=${[
      { name: 'name', label: 'Class' },
      { name: 'requests', label: 'Requests', kind: 'number', format: perSecond },
      { name: 'bytes', label: 'Bytes', kind: 'number', format: bytesPerSecond },
      { name: 'queued', label: 'Queued', kind: 'number', format: count },
      { name: 'wait', label: 'Mean wait for the turn', kind: 'number', format: seconds },
      { name: 'device', label: 'Mean time in the device', kind: 'number', format: seconds },
    ]} />
  <//>`;
}

function Retries({ metrics }) {
  const rows = [
    ['No space on the disk', 'retries_space_total'],
    ['No file descriptors', 'retries_descriptors_total'],
    ['No memory in the system', 'retries_memory_total'],
    ['Interrupted', 'retries_interrupted_total'],
  ].map(([what, name]) => ({ what, all: metrics.sum(`carnet_storage_${name}`) })).filter((row) => row.all > 0);
  return html`<${Card} wide title="Errors that pass" note="writes, flushes and compactions that were retried">
    <${Table} label="Errors that pass" rows=${rows} empty="None since the start." columns=${[
      { name: 'what', label: 'Cause' },
      { name: 'all', label: 'Retries since the start', kind: 'number', format: count },
    ]} />
  <//>`;
}
