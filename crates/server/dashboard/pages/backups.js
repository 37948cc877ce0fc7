// Backups: how to take one of this server, and what the metrics say of earlier ones.

import { html } from './preact.mjs';
import { useMetrics } from './api.js';
import { count } from './format.js';
import { Card, Notice, Tile, Tiles } from './parts.js';

export function Backups() {
  const metrics = useMetrics();
  if (!metrics.last) return html`<p class="empty">${metrics.error ?? 'The server is asked.'}</p>`;
  const isEmbedded = metrics.sum('carnet_storage_tables') !== undefined;
  return html`
    <${Tiles}>
      <${Tile} id="published" label="Last commit" value=${count(metrics.sum('carnet_published_timestamp'))}
        note="a backup taken now has all up to it" />
    <//>
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
