// The dashboard: navigation, log-in, and the page that the address names (#/overview).

import { html, render, useEffect, useRef, useState } from './preact.mjs';
import { pollMetrics, session, useMetrics, useSession } from './api.js';
import { duration } from './format.js';
import { Failure, Notice } from './parts.js';
import { Activity } from './activity.js';
import { Backups } from './backups.js';
import { Cluster } from './cluster.js';
import { Console } from './console.js';
import { Levels } from './levels.js';
import { Overview } from './overview.js';
import { Settings } from './settings.js';
import { Statements } from './statements.js';
import { Storage } from './storage.js';
import { Tables } from './tables.js';

// Pages that show only metrics need no log-in.
const PAGES = [
  { path: 'overview', title: 'Overview', page: Overview, open: true },
  { path: 'statements', title: 'Statements', page: Statements },
  { path: 'activity', title: 'Activity', page: Activity },
  { path: 'levels', title: 'Service levels', page: Levels },
  { path: 'tables', title: 'Tables', page: Tables },
  { path: 'storage', title: 'Storage', page: Storage, open: true },
  { path: 'cluster', title: 'Cluster', page: Cluster },
  { path: 'backups', title: 'Backups', page: Backups, open: true },
  { path: 'settings', title: 'Settings', page: Settings },
  { path: 'console', title: 'Console', page: Console },
];

// The server may keep the console off.
const pagesOf = (state) => PAGES.filter(({ path }) => path !== 'console' || state?.console !== false);

const pathNow = () => location.hash.replace(/^#\/?/, '').split('?')[0] || 'overview';

function usePath() {
  const [path, setPath] = useState(pathNow());
  useEffect(() => {
    const changed = () => setPath(pathNow());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return path;
}

function Login({ title }) {
  const [state, setState] = useState({ busy: false, error: null });
  const user = useRef(null);
  const password = useRef(null);
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await session.login(user.current.value, password.current.value);
    } catch (error) {
      setState({ busy: false, error });
      password.current?.select();
    }
  };
  return html`<form class="card login" onSubmit=${submit}>
    <h2>Log in</h2>
    <p>${title} is for users of this server. The page has the permissions of the user.</p>
    <label>User <input ref=${user} name="user" autocomplete="username" required autofocus /></label>
    <label>Password <input ref=${password} name="password" type="password" autocomplete="current-password" required /></label>
    <${Failure} error=${state.error} />
    <button type="submit" class="primary" disabled=${state.busy}>Log in</button>
  </form>`;
}

function Health() {
  const metrics = useMetrics();
  if (metrics.error) return html`<span class="health bad">${metrics.last ? 'no answer' : 'no metrics'}</span>`;
  if (!metrics.last) return html`<span class="health">connecting</span>`;
  const bad = ['carnet_storage_stopped', 'carnet_storage_disk_full', 'carnet_storage_writes_starved'];
  if (bad.some((name) => metrics.sum(name) > 0)) return html`<span class="health bad">no writes</span>`;
  const up = metrics.last.at - metrics.sum('process_start_time_seconds');
  return html`<span class="health good">up ${duration(up)}</span>`;
}

function Head({ state, page }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [page.path]);
  return html`<header class="top">
    <a class="brand" href="#/overview"><img src="/assets/icon.svg" alt="" width="22" height="22" />Carnet</a>
    <button type="button" class="menu" aria-expanded=${isOpen} aria-controls="nav"
      onClick=${() => setOpen(!isOpen)}>${page.title}<span aria-hidden="true">${'\u00a0▾'}</span></button>
    <nav id="nav" class=${isOpen ? 'open' : ''} aria-label="Pages">
      ${pagesOf(state).map(({ path, title }) => html`<a key=${path} href=${`#/${path}`} onClick=${() => setOpen(false)}
        aria-current=${path === page.path ? 'page' : undefined}>${title}</a>`)}
    </nav>
    <div class="status">
      <${Health} />
      ${state?.version && html`<span class="version">v${state.version}</span>`}
      ${state?.access === 'login' && !state.open && html`<a href="#/activity">Log in</a>`}
      ${state?.user && html`<span class="user">${state.user}</span>`}
      ${state?.user && html`<button type="button" onClick=${() => session.logout()}>Log out</button>`}
      <button type="button" class="theme" aria-label="Switch between light and dark"
        title="Switch between light and dark" onClick=${() => window.carnetTheme.toggle()}>◐</button>
    </div>
  </header>`;
}

function Content({ page, state, error }) {
  const metrics = useMetrics();
  if (error && !state) return html`<${Failure} error=${error} />`;
  if (!state) return html`<p class="empty">The server is asked.</p>`;
  if ((!page.open || metrics.needsLogin) && !state.open) {
    if (state.access === 'login') return html`<${Login} title=${page.title} />`;
    if (state.access === 'closed') return html`<${Notice} tone="warn">${state.why}.<//>`;
    return html`<p class="empty">The server is asked.</p>`;
  }
  return html`<${page.page} key=${page.path} />`;
}

function App() {
  const state = useSession();
  const path = usePath();
  const [error, setError] = useState(null);
  const heading = useRef(null);
  const page = pagesOf(state).find((one) => one.path === path) ?? PAGES[0];
  useEffect(() => {
    let timer = null;
    const load = async () => {
      try {
        await session.load();
        setError(null);
      } catch (failed) {
        setError(failed);
        timer = setTimeout(load, 4000);
      }
    };
    load();
    const stop = pollMetrics();
    return () => { clearTimeout(timer); stop(); };
  }, []);
  useEffect(() => { document.title = `${page.title} · Carnet`; }, [page]);
  const first = useRef(true);
  useEffect(() => {
    // A reader of the screen is told of the new page.
    if (!first.current) heading.current?.focus();
    first.current = false;
  }, [page.path]);
  return html`<a class="skip" href="#content" onClick=${(event) => {
    event.preventDefault();
    heading.current.focus();
  }}>Skip to the page</a>
  <${Head} state=${state} page=${page} />
  <main id="content">
    <h1 tabindex="-1" ref=${heading}>${page.title}</h1>
    <${Content} page=${page} state=${state} error=${error} />
  </main>`;
}

const app = document.getElementById('app');
app.textContent = '';
render(html`<${App} />`, app);
