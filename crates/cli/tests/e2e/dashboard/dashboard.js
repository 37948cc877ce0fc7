// The dashboard in headless Chromium: node dashboard.js TEST URL [ARGUMENT…].

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { eventually, lowContrast, metric, visit, withPage } = require('./browser.js');

const PAGES = [
  'Overview', 'Statements', 'Activity', 'Service levels', 'Tables', 'Storage', 'Cluster', 'Backups', 'Settings', 'Console',
];
const [, , test, base, ...given] = process.argv;

const figure = (page, name) => page.locator(`[data-figure="${name}"]`).first();
const query = (page, statement) => page.evaluate(async (text) => {
  const { query: run } = await import('/assets/api.js');
  return run(text, { rows: 1000 });
}, statement);
// A number as the dashboard writes it.
const written = (page, value, format) => page.evaluate(async ([number, name]) =>
  (await import('/assets/format.js'))[name](number), [value, format]);

async function screenshot(page, name) {
  const folder = process.env.CARNET_SCREENSHOTS;
  if (folder) await page.screenshot({ path: path.join(folder, `${name}.png`) });
}

const TESTS = {
  // Every page, in both themes and on a small screen, while the server works.
  async pages() {
    for (const theme of ['light', 'dark']) {
      await withPage(base, { colorScheme: theme }, async (page) => {
        await page.goto(base);
        await eventually('the plots have points', async () => (await figure(page, 'p99').innerText()) !== '–');
        for (const title of PAGES) {
          await visit(page, title);
          assert.deepEqual(await lowContrast(page), [], `${title}, ${theme}`);
          if (title === 'Console') {
            await page.locator('textarea').fill('SELECT * FROM shop.sales');
            await page.locator('[data-run]').click();
            await figure(page, 'rows').waitFor();
          }
          await screenshot(page, `${title.toLowerCase().replace(' ', '-')}-${theme}`);
        }
      });
      await withPage(base, { colorScheme: theme, viewport: { width: 375, height: 740 } }, async (page) => {
        await page.goto(base);
        for (const title of PAGES) {
          await visit(page, title);
          const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
          assert.ok(width <= 375, `${title} is ${width} px wide`);
          await screenshot(page, `${title.toLowerCase().replace(' ', '-')}-phone-${theme}`);
        }
      });
    }
  },

  // The figures are those of /metrics. The load has ended.
  async figures() {
    await withPage(base, {}, async (page) => {
      await page.goto(base);
      const same = async (name, value, format) => eventually(`${name} is that of /metrics`, async () => {
        const [shown, expected] = [await figure(page, name).innerText(), await written(page, await value(), format)];
        return shown === expected ? true : `${shown} instead of ${expected}`;
      });
      const sum = (name, labels) => () => metric(base, name, labels);
      await same('connections', sum('carnet_server_connections'), 'count');
      await same('open', sum('carnet_open_transactions'), 'count');
      const memory = await page.locator('table tbody tr', { hasText: 'connections' }).first().innerText();
      const held = await written(page, await metric(base, 'carnet_memory_bytes', 'owner="connections"'), 'bytes');
      assert.ok(memory.includes(held), `${memory} has ${held}`);
      await visit(page, 'Statements');
      const rows = page.locator('section', { has: page.getByText('Commits by outcome') }).locator('tbody tr');
      await eventually('commits are those of /metrics', async () => {
        const shown = await rows.filter({ hasText: 'committed' }).locator('td').last().innerText();
        const expected = await written(page, await metric(base, 'carnet_commits_total', 'outcome="committed"'), 'short');
        return shown === expected ? true : `${shown} instead of ${expected}`;
      });
      const executed = page.locator('section', { has: page.getByText('By kind of request') }).locator('tbody tr', { hasText: 'execute' });
      const count = await metric(base, 'carnet_server_request_duration_seconds_count', 'opcode="execute"');
      assert.equal(await executed.locator('td').last().innerText(), await written(page, count, 'count'));
      await visit(page, 'Storage');
      const bytes = async () => await metric(base, 'carnet_storage_table_bytes');
      await same('tables', bytes, 'bytes');
      await same('level0', sum('carnet_storage_level0_tables'), 'count');
      await same('deeper', async () => (await bytes()) - await metric(base, 'carnet_storage_level0_bytes'), 'bytes');
      const levels = page.locator('section', { has: page.getByText('Levels', { exact: true }) }).locator('tbody tr');
      assert.equal(await levels.count(), 1, 'the backup has flushed the memtable');
      assert.equal(await levels.locator('td').nth(2).innerText(), await written(page, await bytes(), 'bytes'));
      await visit(page, 'Backups');
      await same('size', sum('carnet_backup_last_bytes'), 'bytes');
      await same('backups', sum('carnet_backups_total', 'outcome="taken"'), 'count');
      assert.equal(await metric(base, 'carnet_backups_total', 'outcome="taken"'), 1);
      assert.match(await figure(page, 'last').innerText(), /^\d+\u202fs ago$/);
      await visit(page, 'Tables');
      const sizes = page.locator('section', { has: page.getByText('Sizes', { exact: true }) });
      const row = sizes.locator('tbody tr', { hasText: 'shop.sales' });
      const { rows: [{ count: all }] } = await query(page, 'SELECT count(*) FROM shop.sales');
      const partitions = Number((await row.locator('td').nth(3).innerText()).replace(/\D/g, ''));
      assert.ok(partitions > all / 3 && partitions < all * 3, `${partitions} partitions of ${all}`);
      const work = page.locator('section', { has: page.getByText('Reads, writes and space', { exact: true }) });
      const sales = work.locator('tbody tr', { has: page.getByText('shop.sales', { exact: true }) });
      await eventually('work and space are those of the view', async () => {
        const { rows: [statistics] } = await query(page, "SELECT reads, disk_bytes, cache_hit_rate FROM system_views.table_statistics"
          + " WHERE keyspace_name = 'shop' AND table_name = 'sales'");
        const cells = await sales.locator('td').allInnerTexts();
        return cells[2] === await written(page, Number(statistics.reads), 'count')
          && cells[10] === await written(page, Number(statistics.disk_bytes), 'bytes')
          && cells[9] === await written(page, statistics.cache_hit_rate, 'percent');
      });
      await visit(page, 'Settings');
      const { rows: settings } = await query(page, 'SELECT name, value FROM system_views.settings');
      for (const { name, value } of settings.filter((setting) => setting.value !== null)) {
        const shown = page.locator('tbody tr', { has: page.getByText(name, { exact: true }) });
        assert.equal(await shown.locator('td').last().innerText(), value);
      }
    });
  },

  // Rates and percentiles of a steady load are near those that two samples of /metrics give.
  async rates() {
    await withPage(base, {}, async (page) => {
      await page.goto(base);
      const name = 'carnet_server_requests_total';
      await eventually('the rate is that of /metrics', async () => {
        const [from, begun] = [await metric(base, name, 'opcode="execute"'), Date.now()];
        await eventually('the page has taken samples meanwhile', () => page.evaluate(async (since) =>
          (await import('/assets/metrics.js')).history.samples.filter(({ at }) => at * 1000 > since).length >= 2, begun));
        const rate = (await metric(base, name, 'opcode="execute"') - from) / ((Date.now() - begun) / 1000);
        const shown = await page.evaluate(async () =>
          (await import('/assets/metrics.js')).history.rate('carnet_server_requests_total', { opcode: 'execute' }));
        return rate > 0 && Math.abs(shown - rate) < rate / 2 ? true : `${shown} instead of ${rate}`;
      });
      await eventually('there is a percentile', async () => /[µm]?s$/.test(await figure(page, 'p99').innerText()));
      await eventually('there is a verdict', async () => (await figure(page, 'verdict').innerText()).length > 10);
    });
  },

  // A transaction is ended by a click, after a question.
  async kill() {
    const [id] = given;
    await withPage(base, {}, async (page) => {
      await page.goto(`${base}/#/activity`);
      const button = page.locator(`[data-kill="${id}"]`);
      await button.click();
      await page.getByRole('button', { name: 'Cancel' }).click();
      await eventually('the question is gone', async () => (await page.locator('dialog').count()) === 0);
      assert.equal((await query(page, 'SELECT id FROM system_views.transactions')).rows.some((row) => row.id === id), true);
      await screenshot(page, 'activity-with-transaction');
      await button.click();
      await page.locator('[data-confirm]').click();
      await button.waitFor({ state: 'detached' });
      const { rows } = await query(page, 'SELECT id FROM system_views.transactions');
      assert.equal(rows.some((row) => row.id === id), false);
    });
  },

  // Where there are users, only figures are shown before the log-in.
  async login() {
    await withPage(base, {}, async (page, { errors, context }) => {
      await page.goto(base);
      await eventually('figures are open', async () => (await figure(page, 'connections').innerText()) !== '–');
      await visit(page, 'Activity');
      await page.locator('input[name=user]').fill('ann');
      await page.locator('input[name=password]').fill('wrong');
      await page.keyboard.press('Enter');
      await page.getByText('the user or the password is wrong').waitFor();
      // The browser itself reports the answer 401.
      assert.equal(errors.length, 1);
      assert.match(errors.pop(), /401/);
      await screenshot(page, 'login-refused');
      await page.locator('input[name=password]').fill('correct horse');
      await page.keyboard.press('Enter');
      await page.locator('.user', { hasText: 'ann' }).waitFor();
      await page.getByText('Open transactions').first().waitFor();
      assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads the cookie');
      const [cookie] = await context.cookies();
      assert.equal(cookie.httpOnly && cookie.sameSite, 'Strict');
      await query(page, "CREATE KEYSPACE audited WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
      await page.reload();
      await page.locator('.user', { hasText: 'ann' }).waitFor();
      await page.evaluate(async () => {
        const { query: run } = await import('/assets/api.js');
        await run('START TRANSACTION', { console: true });
      });
      assert.equal(await metric(base, 'carnet_open_transactions'), 1);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.locator('input[name=user]').waitFor();
      assert.equal(await metric(base, 'carnet_open_transactions'), 0, 'it ends with its session');
      assert.equal(await page.locator('.user').count(), 0);
    });
  },

  // Where even figures need a token, the first page is the log-in.
  async token() {
    await withPage(base, {}, async (page, { errors }) => {
      await page.goto(base);
      await page.locator('input[name=user]').fill('ann');
      await page.locator('input[name=password]').fill('correct horse');
      await page.keyboard.press('Enter');
      await eventually('figures are shown', async () =>
        (await figure(page, 'connections').count()) === 1 && (await figure(page, 'connections').innerText()) !== '–');
      // The browser itself reports the answer 401 to the first request for metrics.
      assert.equal(errors.length, 1);
      assert.match(errors.pop(), /401/);
    });
  },

  // A role sees what its permissions permit, and the page says what it lacks.
  async role() {
    await withPage(base, {}, async (page) => {
      await page.goto(`${base}/#/console`);
      await page.locator('input[name=user]').fill('reader');
      await page.locator('input[name=password]').fill('secret');
      await page.keyboard.press('Enter');
      const run = async (statement, expected) => {
        await page.locator('textarea').fill(statement);
        await page.locator('[data-run]').click();
        await page.getByText(expected).waitFor();
      };
      await run('SELECT * FROM shop.sales', '1 row');
      await run('INSERT INTO shop.sales (id) VALUES (2)', 'role reader has no MODIFY permission');
      await visit(page, 'Settings');
      await page.getByText('role reader has no SELECT permission').first().waitFor();
    });
  },

  // The console, by the keyboard alone.
  async console() {
    await withPage(base, {}, async (page) => {
      await page.goto(`${base}/#/console`);
      const text = page.locator('textarea');
      await text.waitFor();
      await eventually('the text has the focus', () => page.evaluate(() => document.activeElement.tagName === 'TEXTAREA'));
      const run = async (statement, expected) => {
        await text.fill('');
        await page.keyboard.type(statement);
        await page.keyboard.press('Control+Enter');
        await page.getByText(expected).first().waitFor();
      };
      await run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", 'The schema has changed');
      await run('USE k;', 'The keyspace is now k');
      await run('CREATE TABLE t (p int, c int, big bigint, at timestamp, words set<text>, PRIMARY KEY (p, c))', 'The schema has changed');
      await run("INSERT INTO t (p, c, big, at, words) VALUES (1, 1, 9007199254740993, '2026-01-02 03:04:05Z', {'<b>a</b>'})", 'Done.');
      await run('SELECT * FROM t', '1 row');
      const cells = await page.locator('tbody td').allInnerTexts();
      assert.ok(cells.includes('9007199254740993'), `no digit is lost: ${cells}`);
      assert.ok(cells.includes('["<b>a</b>"]'), `${cells}`);
      await run('SELEC * FROM t', 'SELEC');
      await run('SELECT * FROM missing', 'missing');
      await page.locator('[role=alert]').waitFor();
      for (const c of [2, 3]) await query(page, `INSERT INTO k.t (p, c, big) VALUES (1, ${c}, ${c})`);
      await run('START TRANSACTION', '1 row');
      await run('INSERT INTO t (p, c) VALUES (1, 4)', 'Done.');
      await run('ROLLBACK', 'Done.');
      await run('SELECT c, big FROM t WHERE p = 1', '3 rows');
      await page.getByRole('button', { name: 'Plot' }).click();
      await page.locator('.uplot canvas').waitFor();
      await page.getByRole('button', { name: 'Table' }).click();
      await text.focus();
      await page.keyboard.press('Alt+ArrowUp');
      await page.keyboard.press('Alt+ArrowUp');
      assert.equal(await text.inputValue(), 'ROLLBACK');
      // Rows that do not fit on a page come when they are asked for.
      const inserts = Array.from({ length: 700 }, (_, c) => `INSERT INTO k.t (p, c) VALUES (2, ${c})`);
      await query(page, `BEGIN BATCH ${inserts.join('; ')}; APPLY BATCH`);
      await run('SELECT p, c FROM t WHERE p = 2', 'and more');
      assert.equal(await figure(page, 'rows').innerText(), '500 rows, and more');
      await page.getByRole('button', { name: 'More rows' }).click();
      await page.getByText('700 rows').waitFor();
    });
  },

  // Without the console the other pages work, and end transactions.
  async consoleless() {
    await withPage(base, {}, async (page, { errors }) => {
      await page.goto(`${base}/#/console`);
      await page.locator('h1', { hasText: 'Overview' }).waitFor();
      await visit(page, 'Settings');
      await page.locator('tbody tr').first().waitFor();
      assert.equal(await page.locator('nav a', { hasText: 'Console' }).count(), 0);
      const refused = await query(page, 'SELECT * FROM system_auth.roles').then(() => '', (error) => error.message);
      assert.match(refused, /server\.http_console = false/);
      // The browser itself reports the answer 403.
      assert.match(errors.pop(), /403/);
    });
  },

  // Everything is reached by the keyboard.
  async keyboard() {
    await withPage(base, {}, async (page) => {
      await page.goto(base);
      await figure(page, 'connections').waitFor();
      const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
      await page.keyboard.press('Tab');
      assert.equal(await focused(), 'Skip to the page');
      await page.keyboard.press('Enter');
      await eventually('the page has the focus', async () => (await focused()) === 'Overview');
      await page.reload();
      await figure(page, 'connections').waitFor();
      for (let step = 0; step < 30 && (await focused()) !== 'Tables'; step += 1) await page.keyboard.press('Tab');
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(outline, 'solid', 'the focus is seen');
      await page.keyboard.press('Enter');
      await page.locator('h1', { hasText: 'Tables' }).waitFor();
      // The heading gets the focus after it is shown.
      await eventually('the heading has the focus', async () => (await focused()) === 'Tables');
      assert.equal(await page.locator('nav a[aria-current=page]').innerText(), 'Tables');
      const head = page.locator('th button', { hasText: /^Table/ }).first();
      await head.focus();
      await page.keyboard.press('Enter');
      const isSorted = async () => (await head.locator('xpath=..').getAttribute('aria-sort')) === 'ascending';
      await eventually('the table is sorted', isSorted);
      const theme = page.getByRole('button', { name: 'Switch between light and dark' });
      await theme.focus();
      const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const light = await back();
      await page.keyboard.press('Enter');
      await eventually('the other theme is shown', async () => (await back()) !== light);
      const dark = await back();
      await page.reload();
      assert.equal(await back(), dark, 'the choice stays');
    });
  },

  // A hidden tab asks the server for nothing, and goes on when it is seen.
  async hidden() {
    await withPage(base, {}, async (page, { requests }) => {
      // Timers of the page run when the test says so.
      await page.clock.install();
      await page.goto(base);
      await figure(page, 'connections').waitFor();
      const polls = async () => {
        const before = requests.length;
        await page.clock.runFor(60_000);
        return requests.length > before;
      };
      assert.ok(await polls(), 'a page that is seen asks');
      const hide = (isHidden) => page.evaluate((hidden) => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event('visibilitychange'));
      }, isHidden);
      await hide(true);
      // Requests that have begun may end.
      await page.waitForLoadState('networkidle');
      assert.equal(await polls(), false, 'nothing is asked in a hidden tab');
      await hide(false);
      await eventually('it goes on', polls);
    });
  },

  // The page says that the server is gone, and goes on when it is back.
  async gone() {
    const [flag] = given;
    await withPage(base, {}, async (page, { errors }) => {
      await page.goto(base);
      await figure(page, 'connections').waitFor();
      fs.writeFileSync(flag, '');
      await page.getByText('The server does not answer.').first().waitFor();
      await page.locator('.health', { hasText: 'no answer' }).waitFor();
      assert.ok(errors.every((error) => /net::ERR/.test(error)), `${errors}`);
      errors.length = 0;
    });
  },
};

TESTS[test]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
