// Requests to the server: the session, statements, metrics. Pages poll only while they are looked at.

import { useEffect, useRef, useState } from './preact.mjs';
import { history } from './metrics.js';

export const POLL_MS = 2000;

export class Refused extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const UNREACHABLE = 'The server does not answer. The page goes on trying.';

async function ask(path, body) {
  const request = body === undefined ? {} : {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, { ...request, cache: 'no-store', credentials: 'same-origin' });
  } catch {
    throw new Refused('unreachable', UNREACHABLE);
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Refused('unreachable', `The server answered ${response.status} without a text.`);
  }
  if (response.status === 401 && path === '/api/query') session.ended();
  if (answer.error) throw new Refused(answer.error.kind, answer.error.message);
  return answer;
}

// The session of this browser with the server.
export const session = {
  state: null,
  views: null,
  listeners: new Set(),
  endings: new Set(),
  forget() {
    for (const forget of this.endings) forget();
  },
  set(state) {
    this.state = state;
    for (const listener of this.listeners) listener();
  },
  async load() {
    const found = await ask('/api/session');
    if (found.access === 'open' && !found.open) {
      await ask('/api/login', {});
      found.open = true;
    }
    this.set(found);
    // Pages that show metrics need no statement, which the server may refuse.
    if (found.open) await this.loadViews().catch(() => {});
    this.set(found);
  },
  // Lists the views, since servers of other versions have others.
  async loadViews() {
    const answer = await ask('/api/query', {
      statement: "SELECT table_name FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views'",
      rows: 1000,
    });
    this.views = new Set(answer.rows.map(([name]) => name));
  },
  async login(user, password) {
    const answer = await ask('/api/login', { user, password });
    this.set({ ...this.state, open: true, user: answer.user });
    await this.loadViews().catch(() => {});
    this.set({ ...this.state });
  },
  async logout() {
    await ask('/api/logout', {});
    this.forget();
    this.set({ ...this.state, open: false, user: null });
    if (this.state.access === 'open') await this.load();
  },
  ended() {
    this.forget();
    if (this.state?.open) this.set({ ...this.state, open: false, user: null });
    if (this.state?.access === 'open') this.load().catch(() => {});
  },
};

// Runs a statement. Rows become objects: { columns, rows: [{ name: value }], values, next, warnings }.
export async function query(statement, options = {}) {
  const answer = await ask('/api/query', { statement, ...options });
  if (answer.kind !== 'rows') return answer;
  const names = answer.columns.map((column) => column.name);
  const rows = answer.rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])));
  return { ...answer, values: answer.rows, rows };
}

// Like query, with the rows of all pages.
export async function queryAll(statement) {
  const first = await query(statement, { rows: 5000 });
  const rows = first.rows;
  for (let next = first.next; next;) {
    const page = await query(statement, { rows: 5000, next });
    rows.push(...page.rows);
    next = page.next;
  }
  return { ...first, rows, next: null };
}

// Reads the metrics once.
export async function readMetrics() {
  if (history.needsLogin && !session.state?.open) return;
  try {
    // A server that hangs answers nothing.
    const signal = AbortSignal.timeout(10_000);
    const response = await fetch('/metrics', { cache: 'no-store', credentials: 'same-origin', signal });
    if (response.status === 401) {
      history.needsLogin = true;
      history.fail('Metrics need a log-in here.');
      return;
    }
    if (!response.ok) {
      history.fail(`The server answered ${response.status} to the request for metrics.`);
      return;
    }
    history.add(await response.text(), Date.now() / 1000);
  } catch {
    history.fail(UNREACHABLE);
  }
}

// Calls a function now and each `every` ms, one call at a time, while the page is visible.
function poll(call, every) {
  let timer = null;
  let ended = false;
  let running = false;
  const turn = async () => {
    timer = null;
    if (ended || running || document.hidden) return;
    running = true;
    try { await call(); } finally { running = false; }
    if (!ended && !document.hidden) timer = setTimeout(turn, every);
  };
  const visible = () => {
    if (document.hidden) {
      clearTimeout(timer);
      timer = null;
    } else if (timer === null) {
      turn();
    }
  };
  document.addEventListener('visibilitychange', visible);
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', visible);
  };
}

// Hook: the result of a function that is called again and again. { data, error, again }.
export function usePoll(call, every = POLL_MS, inputs = []) {
  const [state, setState] = useState({ data: null, error: null });
  const latest = useRef(call);
  latest.current = call;
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let current = true;
    const stop = poll(async () => {
      try {
        const data = await latest.current();
        if (current) setState({ data, error: null });
      } catch (error) {
        if (current) setState((last) => ({ data: last.data, error }));
      }
    }, every);
    return () => { current = false; stop(); };
  }, [every, turn, ...inputs]);
  return { ...state, again: () => setTurn((number) => number + 1) };
}

// Hook: the page is drawn again after each sample of the metrics.
export function useMetrics() {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const listener = () => setTurn((number) => number + 1);
    history.listeners.add(listener);
    return () => history.listeners.delete(listener);
  }, []);
  return history;
}

// Calls a function at the end of each session.
export const onEnd = (forget) => session.endings.add(forget);

// Hook: the session.
export function useSession() {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const listener = () => setTurn((number) => number + 1);
    session.listeners.add(listener);
    return () => session.listeners.delete(listener);
  }, []);
  return session.state;
}

export function pollMetrics() {
  return poll(readMetrics, POLL_MS);
}
