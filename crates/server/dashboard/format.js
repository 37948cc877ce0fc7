// Numbers with their units, aligned by the reader's eye: three digits that count, thousands apart.

const missing = '–';
const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f') : missing;
}

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

// A number in thousands, millions and so on.
export function short(value) {
  if (!isNumber(value)) return missing;
  for (const [unit, name] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (Math.abs(value) >= unit) {
      const divided = unit === 1e4 ? value / 1e3 : value / unit;
      return `${digits(divided)}\u202f${name}`;
    }
  }
  return Number.isInteger(value) ? count(value) : Math.abs(value) >= 1000 ? count(value) : digits(value);
}

export function bytes(value) {
  if (!isNumber(value)) return missing;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let place = 0;
  while (Math.abs(value) >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
  return `${place === 0 ? count(value) : digits(value)}\u202f${units[place]}`;
}

export const bytesPerSecond = (value) => (isNumber(value) ? `${bytes(value)}/s` : missing);
export const perSecond = (value) => (isNumber(value) ? `${short(value)}/s` : missing);

// A time in the unit that fits: 1.20 ms.
export function seconds(value) {
  if (!isNumber(value)) return missing;
  if (value === 0) return '0\u202fms';
  if (value < 1e-3) return `${digits(value * 1e6)}\u202fµs`;
  if (value < 1) return `${digits(value * 1e3)}\u202fms`;
  if (value < 120) return `${digits(value)}\u202fs`;
  return duration(value);
}

// A long time in its two largest units: 3 h 12 min.
export function duration(value) {
  if (!isNumber(value)) return missing;
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const at = units.findIndex(([, length]) => value >= length);
  if (at < 0) return '0\u202fs';
  const [name, length] = units[at];
  const whole = `${Math.floor(value / length)}\u202f${name}`;
  const next = units[at + 1];
  const rest = next ? Math.floor((value % length) / next[1]) : 0;
  return rest > 0 ? `${whole} ${rest}\u202f${next[0]}` : whole;
}

export const percent = (value) => (isNumber(value) ? `${digits(value * 100)}\u202f%` : missing);
export const text = (value) => (value === null || value === undefined || value === '' ? missing : String(value));
export const yesNo = (value) => (value === null || value === undefined ? missing : value ? 'yes' : 'no');

// The number of rows of an answer; further rows are on its next page.
export const shown = (answer) => (answer.next ? `the first ${count(answer.rows.length)}` : count(answer.rows.length));
