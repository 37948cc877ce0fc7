//! Text forms of values, as printed for people and as found in literals and CSV fields.
//!
//! `Display` of a [`Value`](crate::Value) prints like cqlsh, and
//! [`DataType::parse_text`](crate::DataType::parse_text) reads that form, as well as the other
//! forms that Cassandra accepts in string literals:
//!
//! | type | printed | also read |
//! | --- | --- | --- |
//! | integers, `varint` | `-12` | `+12` |
//! | `float`, `double` | shortest that reads back: `0.1`, `1e+20`, `NaN`, `-Infinity` | any case, `inf` |
//! | `decimal` | `1.50`, `1E+5` | `1e5` |
//! | `boolean` | `True` | any case |
//! | `timestamp` | `2026-01-02 03:04:05.678000+0000` | `T` for the space; minutes, seconds and fraction left out; zone `Z`, `+01`, `+0100`, `+01:00` or none (UTC); a date alone; milliseconds since 1970 |
//! | `date` | `2026-01-02` | days, with 1970-01-01 at 2³¹ |
//! | `time` | `03:04:05.678000000` | fewer digits or none; nanoseconds since midnight |
//! | `uuid`, `timeuuid` | `f81d4fae-7dec-11d0-a765-00a0c91e6bf6` | any case |
//! | `blob` | `0x00ff` | any case |
//! | `inet` | `127.0.0.1`, `::1` | `::ffff:127.0.0.1` |
//! | `text`, `ascii` | as it is | |
//! | `duration` | `1y2mo3d4h5m6s7ms8us9ns` | weeks, `µs`, ISO 8601: `P1Y2M3DT4H5M6S` |
//! | `list`, `tuple` | `[1, 2]`, `(1, 'a', null)` | |
//! | `set`, `map` | `{1, 2}`, `{'a': 1}` | |
//! | user-defined type | `{name: 'a', size: null}` | without fields that are null |
//!
//! Dates and timestamps outside the years 1 to 9999 are printed as numbers, and years of up to nine
//! digits, also negative ones, are read. A fraction of a second finer than a timestamp is
//! truncated. Blanks around anything but text are skipped.
//!
//! [`Value::to_literal`](crate::Value::to_literal) adds the quotes that make the text a term of
//! CQL.
//!
//! Deliberately absent: names of time zones, host names as `inet`, and `now`. The first two need
//! databases of their own, and the last a clock.

mod composite;
mod format;
mod parse;
mod quote;

#[cfg(test)]
mod tests;
