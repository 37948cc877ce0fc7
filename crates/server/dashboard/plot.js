// Plots over time or over a number, by uPlot, in the colours of the theme.

import { html, useEffect, useRef } from './preact.mjs';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const colour = (place) => css(`--series-${(place % 6) + 1}`);

// Steps between the marks of an axis, so that they are round in its unit.
const STEPS = {
  bytes: Array.from({ length: 45 }, (_, power) => 2 ** power),
  whole: [1, 2, 5].flatMap((first) => Array.from({ length: 12 }, (_, power) => first * 10 ** power)).sort((a, b) => a - b),
};

// Marks of an axis of times, as short as they are clear.
function timesOf(plot, splits) {
  const span = plot.scales.x.max - plot.scales.x.min;
  const two = (number) => String(number).padStart(2, '0');
  return splits.map((secs) => {
    const at = new Date(secs * 1000);
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    if (span > 4 * 86400) return day;
    const minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
    if (span > 86400) return `${day.slice(5)} ${minute}`;
    return span > 600 ? minute : `${minute}:${two(at.getSeconds())}`;
  });
}

// Plots of the server's figures begin two minutes wide.
const WIDTH_SECS = 120;

function options(width, height, lines, { format, steps, isTime, isLive }) {
  const [muted, grid] = [css('--muted'), css('--grid')];
  const axis = { stroke: muted, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width,
    height,
    padding: [8, 24, 0, 0],
    cursor: { points: { size: 6 }, y: false },
    legend: { show: false },
    scales: { x: { time: isTime, range: isLive ? (_, low, high) => [Math.min(low, high - WIDTH_SECS), high] : undefined }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, space: isTime ? 76 : 60, size: 24, ...(isTime ? { values: timesOf } : {}) },
      { ...axis, space: 32, size: 68, values: (_, splits) => splits.map(format), ...(STEPS[steps] ? { incrs: STEPS[steps] } : {}) },
    ],
    series: [
      {},
      ...lines.map((line, place) => ({
        label: line.label,
        stroke: colour(place),
        width: 1.5,
        points: { show: false },
        spanGaps: false,
        fill: lines.length === 1 ? `${colour(place)}22` : undefined,
      })),
    ],
  };
}

// A plot with a legend that shows the values under the pointer, or the last ones.
// lines: [{ label, points }]; format: a number as text; steps: bytes or whole, if marks should be round in it.
export function Plot({ label, times, lines, format, steps, height = 150, isTime = true, isLive = true }) {
  const place = useRef(null);
  const legend = useRef(null);
  const plot = useRef(null);
  const shown = useRef({});
  shown.current = { times, lines, format };
  const names = lines.map((line) => line.label).join('\n');

  const tell = () => {
    const { lines: now, format: text, times: at } = shown.current;
    const index = plot.current?.cursor.idx ?? at.length - 1;
    legend.current?.querySelectorAll('[data-value]').forEach((cell, number) => {
      const value = now[number]?.points[index];
      cell.textContent = value === null || value === undefined ? '–' : text(value);
    });
  };

  useEffect(() => {
    const box = place.current;
    const draw = () => {
      plot.current?.destroy();
      const { lines: now, times: at, format: text } = shown.current;
      const made = options(box.clientWidth, height, now, { format: text, steps, isTime, isLive });
      made.hooks = { setCursor: [tell] };
      plot.current = new window.uPlot(made, [at, ...now.map((line) => line.points)], box);
      legend.current?.querySelectorAll('[data-colour]').forEach((key, number) => {
        key.style.backgroundColor = colour(number);
      });
    };
    draw();
    const resized = new ResizeObserver(() => {
      const width = box.clientWidth;
      if (plot.current && width > 0 && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    resized.observe(box);
    addEventListener('carnet-theme', draw);
    return () => {
      resized.disconnect();
      removeEventListener('carnet-theme', draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names, height, isTime]);

  useEffect(() => {
    plot.current?.setData([times, ...lines.map((line) => line.points)]);
    tell();
  });

  return html`<figure class="plot" aria-label=${label}>
    <figcaption ref=${legend}>
      ${lines.map((line) => html`<span class="key" key=${line.label}>
        <i data-colour></i>${line.label} <b data-value>–</b></span>`)}
    </figcaption>
    <div class="canvas" ref=${place}></div>
    ${times.length < 2 && html`<p class="waiting">The plot begins with the second sample.</p>`}
  </figure>`;
}
