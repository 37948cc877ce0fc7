// A page of headless Chromium that fails the test on any error of the console or violation of the policy.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { chromium } = require('playwright-core');

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-default-apps', '--disable-extensions',
];
const TIMEOUT = 60_000;

// Runs a test on a new page, and closes the browser whatever happens.
exports.withPage = async (base, options, test) => {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'carnet-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM,
    headless: true,
    args: FLAGS,
    viewport: { width: 1366, height: 900 },
    ...options,
  });
  const errors = [];
  const requests = [];
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(TIMEOUT);
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) errors.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => errors.push(`script: ${error.stack}`));
    page.on('request', (request) => {
      requests.push(request.url());
      if (!request.url().startsWith(base)) errors.push(`a request to another server: ${request.url()}`);
    });
    await page.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => {
        console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
      });
    });
    await test(page, { errors, requests, context });
    assert.deepEqual(errors, []);
  } finally {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true });
  }
};

// Waits until a function of the test returns true.
exports.eventually = async (what, isSo) => {
  const deadline = Date.now() + TIMEOUT;
  let last;
  while (Date.now() < deadline) {
    last = await isSo();
    if (last === true) return;
    await new Promise((done) => { setTimeout(done, 50); });
  }
  assert.fail(`within ${TIMEOUT} ms: ${what}: ${JSON.stringify(last)}`);
};

// Opens a page by its link, and waits for its data.
exports.visit = async (page, title) => {
  const link = page.locator('nav a', { hasText: new RegExp(`^${title}$`) });
  if (!(await link.isVisible())) await page.locator('button.menu').click();
  await link.click();
  await page.locator('h1', { hasText: title }).waitFor();
  await exports.eventually(`${title} has its data`, async () =>
    (await page.getByText('The server is asked.').count()) === 0);
};

// Texts whose contrast with their background is too low (WCAG AA).
exports.lowContrast = (page) => page.evaluate(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([red, green, blue]) => {
    const linear = (value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || box.width === 0 || box.height === 0 || element.disabled) continue;
    const style = getComputedStyle(element);
    if (style.visibility === 'hidden') continue;
    const [one, other] = [light(parts(style.color)), light(background(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24;
    if (contrast < (isLarge ? 3 : 4.5)) {
      low.push(`${element.tagName} ${element.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
    }
  }
  return low;
});

// Reads the server's metrics as a sum of the values of a name with some labels.
exports.metric = async (base, name, labels = '') => {
  const text = await (await fetch(`${base}/metrics`)).text();
  const lines = text.split('\n').filter((line) =>
    (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) && line.includes(labels));
  assert.ok(lines.length > 0, `${name} is a metric`);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
};
