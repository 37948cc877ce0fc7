//! Loads with one known reason to wait.

use std::io;
use std::time::Duration;

use serde_json::Value;

use crate::overload::pause;
use crate::program::{Client, Tally, repeat};
use crate::wire;

/// A load, and what the diagnosis has to say of it.
pub(super) struct Load {
    pub(super) name: &'static str,
    /// Settings of the server.
    pub(super) settings: &'static str,
    pub(super) durability: &'static str,
    pub(super) clients: usize,
    /// Number of clients of the greedy user.
    pub(super) greedy: usize,
    pub(super) fill: fn(&mut Client) -> io::Result<()>,
    pub(super) run: fn(&mut Client, usize, &Tally) -> io::Result<()>,
    /// Reasons that are right.
    whys: &'static [&'static str],
    /// Table and user of the largest cause; empty if the verdict may name any.
    table: &'static str,
    user: &'static str,
}

impl Load {
    /// Returns what a report should have said, if it says something else.
    pub(super) fn wrong(&self, report: &Value) -> Option<String> {
        let first = &report["causes"][0];
        let is = |value: &Value, expected: &str| expected.is_empty() || value == expected;
        let shares = report["causes"].as_array().into_iter().flatten();
        let sum: f64 = shares.filter_map(|cause| cause["share"].as_f64()).sum();
        let adds_up =
            report["causes"].as_array().is_none_or(Vec::is_empty) || (sum - 1.0).abs() < 0.01;
        let is_named = is(&first["table_name"], self.table) && is(&first["user_name"], self.user);
        let is_why = self.whys.iter().any(|why| report["why"] == *why);
        let expected =
            || format!("{:?} of {:?} by {:?}, shares {sum:.2}", self.whys, self.table, self.user);
        (!is_why || !is_named || !adds_up).then(expected)
    }
}

const PLAIN: &str = "[server]\nmemory = \"256MiB\"\n";
const ROWS: usize = 40_000;
const MIB: usize = 1 << 20;

pub(super) const LOADS: [Load; 13] = [
    Load {
        name: "long scans",
        fill: rows,
        run: |client, _, tally| repeat(client, "SELECT count(*) FROM ks.t", tally),
        whys: &["cpu"],
        table: "ks.t",
        ..load(8)
    },
    Load {
        name: "many short reads",
        fill: rows,
        run: |client, _, tally| pipelined(client, "SELECT v FROM ks.t WHERE k = 7", 64, tally),
        whys: &["cpu", "gate"],
        ..load(32)
    },
    Load {
        name: "refusals for memory of answers",
        fill: long_cell,
        run: |client, _, tally| repeat(client, "SELECT v FROM ks.n WHERE k = 1", tally),
        whys: &["memory"],
        ..load(40)
    },
    Load {
        name: "requests that wait for memory",
        fill: |client| client.query("CREATE TABLE ks.n (k int PRIMARY KEY, v text)"),
        run: |client, number, tally| {
            let text = "x".repeat(6 * MIB);
            repeat(client, &format!("INSERT INTO ks.n (k, v) VALUES ({number}, '{text}')"), tally)
        },
        whys: &["memory"],
        ..load(48)
    },
    Load {
        name: "clients that do not read",
        fill: long_rows,
        run: |client, _, tally| {
            let query = wire::query_frame(1, "SELECT v FROM ks.b WHERE k = 1", None);
            for _ in 0..64 {
                client.send(&query)?;
            }
            while !tally.is_over() {
                pause(Duration::from_millis(50));
            }
            Ok(())
        },
        whys: &["socket"],
        ..load(8)
    },
    Load {
        name: "synced writes",
        durability: "always",
        fill: |client| client.query("CREATE TABLE ks.w (k int PRIMARY KEY, v text)"),
        run: |client, number, tally| {
            repeat(client, &format!("INSERT INTO ks.w (k, v) VALUES ({number}, 'v')"), tally)
        },
        whys: &["log"],
        table: "ks.w",
        ..load(8)
    },
    Load {
        name: "a hot row",
        fill: hot_row,
        run: |client, _, tally| repeat(client, "UPDATE ks.h SET n = n + 1 WHERE k = 1", tally),
        whys: &["lock"],
        table: "ks.h",
        durability: "always",
        ..load(24)
    },
    Load {
        name: "transactions on the same rows",
        fill: hot_row,
        run: |client, _, tally| {
            let text = "BEGIN TRANSACTION LET r = (SELECT n FROM ks.h WHERE k = 1); \
                        UPDATE ks.h SET n = n + 1 WHERE k = 1; UPDATE ks.h SET n = n + 1 WHERE k = 2; \
                        COMMIT TRANSACTION";
            repeat(client, text, tally)
        },
        whys: &["lock"],
        table: "ks.h",
        durability: "always",
        ..load(24)
    },
    Load {
        name: "writes faster than flush",
        settings: "[server]\nmemory = \"96MiB\"\n",
        fill: |client| client.query("CREATE TABLE ks.w (k int PRIMARY KEY, v text)"),
        run: |client, number, tally| {
            let id = client.prepare("INSERT INTO ks.w (k, v) VALUES (?, ?)")?;
            let value = vec![b'x'; 256 << 10];
            for row in 0..i32::MAX {
                if tally.is_over() {
                    break;
                }
                let key = (row << 6 | i32::try_from(number).unwrap_or(0)).to_be_bytes();
                tally.note(&client.answer(&wire::execute_values(1, &id, &[&key, &value], None))?);
            }
            Ok(())
        },
        whys: &["throttle", "memory"],
        ..load(16)
    },
    Load {
        name: "reads from the disk",
        settings: "[server]\nmemory = \"96MiB\"\n",
        fill: much,
        run: |client, number, tally| {
            let id = client.prepare("SELECT v FROM ks.d WHERE k = ?")?;
            let mut key = i32::try_from(number).unwrap_or(0);
            while !tally.is_over() {
                key = (key * 31 + 17).rem_euclid(MUCH_ROWS);
                let frame = wire::execute_values(1, &id, &[&key.to_be_bytes()], None);
                tally.note(&client.answer(&frame)?);
            }
            Ok(())
        },
        whys: &["disk"],
        table: "ks.d",
        ..load(16)
    },
    Load {
        name: "one place for statements",
        settings: "[server]\nmemory = \"256MiB\"\n[limits]\nrunning = 1\n",
        durability: "always",
        fill: rows,
        run: |client, number, tally| {
            let key = number + 1;
            let keys = (0..12).map(|at| (key * at).to_string()).collect::<Vec<_>>().join(", ");
            pipelined(client, &format!("SELECT v FROM ks.t WHERE k IN ({keys})"), 32, tally)
        },
        whys: &["gate", "cpu"],
        table: "",
        ..load(16)
    },
    Load {
        name: "one greedy user",
        fill: rows,
        run: |client, number, tally| {
            if number < 16 {
                return repeat(client, "SELECT count(*) FROM ks.t", tally);
            }
            while !tally.is_over() {
                pause(Duration::from_millis(20));
                tally.note(&client.answer(&wire::query_frame(
                    1,
                    "SELECT v FROM ks.t WHERE k = 7",
                    None,
                ))?);
            }
            Ok(())
        },
        whys: &["cpu"],
        table: "ks.t",
        user: "greedy",
        greedy: 16,
        ..load(20)
    },
    Load {
        name: "too few connections",
        fill: rows,
        run: |client, _, tally| repeat(client, "SELECT v FROM ks.t WHERE k = 7", tally),
        whys: &["none"],
        ..load(1)
    },
];

/// Returns a load of some clients of one user that expects nothing.
const fn load(clients: usize) -> Load {
    Load {
        name: "",
        settings: PLAIN,
        durability: "none",
        clients,
        greedy: 0,
        fill: |_| Ok(()),
        run: |_, _, _| Ok(()),
        whys: &[],
        table: "",
        user: "",
    }
}

/// Keeps a number of requests in flight.
fn pipelined(client: &mut Client, text: &str, in_flight: usize, tally: &Tally) -> io::Result<()> {
    let frame = wire::query_frame(1, text, None);
    for _ in 0..in_flight {
        client.send(&frame)?;
    }
    while !tally.is_over() {
        tally.note(&client.answer(&frame)?);
    }
    Ok(())
}

fn rows(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")?;
    for batch in 0..ROWS / 500 {
        let row = |key: usize| format!("INSERT INTO ks.t (k, v) VALUES ({key}, '{key:0>60}'); ");
        let inserts: String = (batch * 500..(batch + 1) * 500).map(row).collect();
        client.query(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"))?;
    }
    Ok(())
}

fn hot_row(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.h (k int PRIMARY KEY, n int)")?;
    client.query("INSERT INTO ks.h (k, n) VALUES (1, 0)")?;
    client.query("INSERT INTO ks.h (k, n) VALUES (2, 0)")
}

fn long_cell(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.n (k int PRIMARY KEY, v text)")?;
    let id = client.prepare("INSERT INTO ks.n (k, v) VALUES (?, ?)")?;
    client.execute(&id, &[&1_i32.to_be_bytes(), &vec![b'x'; 12 * MIB]])
}

fn long_rows(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.b (k int PRIMARY KEY, v text)")?;
    let id = client.prepare("INSERT INTO ks.b (k, v) VALUES (?, ?)")?;
    client.execute(&id, &[&1_i32.to_be_bytes(), &vec![b'x'; MIB - 4096]])
}

/// Number of rows of 64 KiB, several times the memory of the server.
const MUCH_ROWS: i32 = 6_000;

fn much(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.d (k int PRIMARY KEY, v blob)")?;
    let id = client.prepare("INSERT INTO ks.d (k, v) VALUES (?, ?)")?;
    let mut state = 88_172_645_463_325_252_u64;
    for key in 0..MUCH_ROWS {
        // Values that do not compress.
        let mut value = Vec::with_capacity(64 << 10);
        while value.len() < 64 << 10 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            value.extend(state.to_be_bytes());
        }
        client.execute(&id, &[&key.to_be_bytes(), &value])?;
    }
    Ok(())
}
