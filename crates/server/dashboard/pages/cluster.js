// Cluster: this server, the others of the database, and the cluster that stores it.

import { html } from './preact.mjs';
import { query, useMetrics, usePoll } from './api.js';
import { count, perSecond, text, yesNo } from './format.js';
import { Card, Failure, Notice, Table, Tile, Tiles } from './parts.js';

function Servers() {
  const { data, error } = usePoll(async () => {
    const [local, peers] = await Promise.all([
      query('SELECT host_id, rpc_address, rpc_port, data_center, rack, release_version, schema_version FROM system.local'),
      query('SELECT host_id, native_address, native_port, data_center, rack, release_version, schema_version FROM system.peers_v2', { rows: 1000 }),
    ]);
    return [
      ...local.rows.map((row) => ({ ...row, address: row.rpc_address, port: row.rpc_port, which: 'this one' })),
      ...peers.rows.map((row) => ({ ...row, address: row.native_address, port: row.native_port, which: 'other' })),
    ];
  }, 4000);
  const schemas = new Set(data?.map((row) => row.schema_version));
  return html`<${Card} wide title="Servers" note=${data ? `${count(data.length)} of this database` : ''}>
    <${Failure} error=${error} />
    <${Table} label="Servers" rows=${data} error=${error} rowKey=${(row) => row.host_id} empty="The server does not know itself." columns=${[
      { name: 'which', label: 'Server' },
      { name: 'address', label: 'Address', kind: 'code' },
      { name: 'port', label: 'Port', kind: 'number', format: text },
      { name: 'data_center', label: 'Data centre' },
      { name: 'release_version', label: 'Speaks as Cassandra' },
      { name: 'host_id', label: 'Id', kind: 'code' },
    ]} />
    ${schemas.size > 1 && html`<p class="note">The servers have different versions of the schema: a change is on its way.</p>`}
  <//>`;
}

export function Cluster() {
  const metrics = useMetrics();
  const is = (name) => metrics.sum(`carnet_cluster_${name}`);
  const requests = [...metrics.by('carnet_cluster_requests_total', 'kind')].map(([kind, all]) => ({
    kind, all, rate: metrics.rate('carnet_cluster_requests_total', { kind }),
  }));
  const isEmbedded = metrics.last && is('leader') === undefined;
  const known = new Set(['requests_total', 'leader', 'failing', 'syncs_later'].map((name) => `carnet_cluster_${name}`));
  const more = [...(metrics.last?.values ?? [])].filter(([name]) => name.startsWith('carnet_cluster_') && !known.has(name))
    .flatMap(([name, series]) => series.map(({ labels, value }) => ({
      what: name.slice('carnet_cluster_'.length).replaceAll('_', ' '),
      labels: Object.values(labels).join(', '),
      value,
    })));
  return html`
    ${isEmbedded && html`<${Notice}>The database is in a directory of this server. It has no other servers, no
      leader and no term: every commit is ordered here.<//>`}
    ${metrics.last && !isEmbedded && html`<${Tiles} four>
      <${Tile} id="leader" label="Leads the database" value=${yesNo(is('leader') === 1)} />
      <${Tile} id="failing" label="Cluster answers" value=${is('failing') === 1 ? 'no' : 'yes'} tone=${is('failing') === 1 ? 'bad' : 'good'} />
      <${Tile} id="syncs" label="Nodes sync before they answer" value=${yesNo(is('syncs_later') === 0)} tone=${is('syncs_later') === 1 ? 'warn' : ''}
        note=${is('syncs_later') === 1 ? 'a kill of most nodes loses commits' : ''} />
    <//>`}
    <div class="grid">
      <${Servers} />
      ${!isEmbedded && html`<${Card} title="Requests to the cluster">
        <${Table} label="Requests to the cluster" rows=${metrics.last ? requests : null} empty="None yet." columns=${[
          { name: 'kind', label: 'Kind' },
          { name: 'rate', label: 'Rate', kind: 'number', format: perSecond },
          { name: 'all', label: 'Since the start', kind: 'number', format: count },
        ]} />
      <//>`}
      ${more.length > 0 && html`<${Card} title="Figures of the cluster">
        <${Table} label="Figures of the cluster" rows=${more} columns=${[
          { name: 'what', label: 'Figure' },
          { name: 'labels', label: '' },
          { name: 'value', label: 'Now', kind: 'number', format: count },
        ]} />
      <//>`}
    </div>`;
}
