// Backups: how to take one of this server, and what the metrics say of earlier ones.

import { html } from './preact.mjs';
import { useMetrics } from './api.js';
import { bytes, count, duration } from './format.js';
import { Card, Notice, Tile, Tiles } from './parts.js';

export function Backups() {
  const metrics = useMetrics();
  if (!metrics.last) return html`<p class="empty">${metrics.error ?? 'The server is asked.'}</p>`;
  const isEmbedded = metrics.sum('carnet_storage_tables') !== undefined;
  const [at, commit] = [metrics.sum('carnet_backup_last_timestamp_seconds'), metrics.sum('carnet_backup_last_commit')];
  const failed = metrics.sum('carnet_backups_total', { outcome: 'failed' });
  const published = metrics.sum('carnet_published_timestamp');
  return html`
    ${isEmbedded && html`<${Tiles}>
      <${Tile} id="last" label="Last backup" value=${at > 0 ? `${duration(metrics.last.at - at)} ago` : 'none'} tone=${at > 0 ? 'good' : ''}
        note=${at > 0 ? new Date(at * 1000).toLocaleString('sv') : 'since the start of the server'} />
      <${Tile} id="behind" label="Timestamps since" value=${at > 0 ? count(published - commit) : '–'} note=${`the last commit is ${count(published)}`} />
      <${Tile} id="size" label="Size" value=${at > 0 ? bytes(metrics.sum('carnet_backup_last_bytes')) : '–'} note="of its files, shared ones included" />
      <${Tile} id="backups" label="Taken" value=${count(metrics.sum('carnet_backups_total', { outcome: 'taken' }))} note=${`${count(metrics.sum('carnet_backup_running'))} run now`} />
      <${Tile} id="failed" label="Failed" value=${count(failed)} tone=${failed > 0 ? 'bad' : ''} note=${failed > 0 ? 'the log has the reason' : 'since the start'} />
    <//>`}
    <div class="grid"><${Card} wide title=${isEmbedded ? 'Take a backup' : 'Back up the cluster'}>
      ${isEmbedded ? html`
        <p>A backup is taken beside the running server, on its machine. Transactions go on meanwhile.</p>
        <pre><code>carnet backup DIR DEST --keep 7     # DIR: the database's directory
carnet verify DEST/BACKUP           # reads every byte of it
carnet restore DEST NEWDIR          # a database of the last backup</code></pre>
        <p class="note">Each backup is named by its last commit. Backups to one DEST share the files that have not changed.</p>`
        : html`<${Notice}>The data is in a cluster: its own tools copy the tables, and <code>carnet restore</code> makes
          a prefix of the commits of the copy.<//>`}
    <//></div>`;
}
