//! Loads of clients that ask for much.

use std::io;
use std::time::Duration;

use crate::overload::pause;
use crate::program::{Client, Tally, repeat};
use crate::wire;

/// A load: its table, and what each of its clients does.
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) clients: usize,
    pub(super) fill: fn(&mut Client) -> io::Result<()>,
    pub(super) run: fn(&mut Client, usize, &Tally) -> io::Result<()>,
}

const MIB: usize = 1 << 20;
/// Number of rows of 1 MiB.
const LONG_ROWS: i32 = 64;
/// Size of the value of a row of 1 MiB.
const ROW_BYTES: usize = MIB - (4 << 10);
/// Number of elements of the lists.
const ELEMENTS: i32 = 200_000;
const LONG_ELEMENTS: i32 = 500_000;
/// Number of rows with a vector.
const VECTORS: usize = 300_000;

/// The loads, in the order in which they are measured.
pub(super) const LOADS: [Load; 15] = [
    Load {
        name: "4 × varint of 2 MiB + 0.5",
        clients: 4,
        fill: |client| number(client, "varint", &vec![0x5a; 2 * MIB]),
        run: |client, _, tally| repeat(client, "SELECT v + 0.5 FROM ks.n WHERE k = 1", tally),
    },
    Load {
        name: "4 × 4,000 subtractions from a long decimal",
        clients: 4,
        fill: |client| {
            number(client, "decimal", &[&[0, 0, 0, 9][..], &vec![0x5a; 64 << 10]].concat())
        },
        run: |client, _, tally| {
            let text = format!("SELECT v{} FROM ks.n WHERE k = 1", " - 1".repeat(4_000));
            repeat(client, &text, tally)
        },
    },
    Load {
        name: "4 × 1,000 additions of a text of 1 MiB",
        clients: 4,
        fill: |client| number(client, "text", &vec![b'x'; MIB]),
        run: |client, _, tally| {
            let text = format!("SELECT v{} FROM ks.n WHERE k = 1", " + v".repeat(1_000));
            repeat(client, &text, tally)
        },
    },
    Load {
        name: "8 × writetime(l) × 200, 200,000 elements",
        clients: 8,
        fill: |client| list(client, ELEMENTS),
        run: |client, _, tally| repeat(client, &times("writetime(v)", 200), tally),
    },
    Load {
        name: "8 × to_json(l) × 100, 200,000 elements",
        clients: 8,
        fill: |client| list(client, ELEMENTS),
        run: |client, _, tally| repeat(client, &times("to_json(v)", 100), tally),
    },
    Load {
        name: "16 × a list of 500,000 elements",
        clients: 16,
        fill: |client| list(client, LONG_ELEMENTS),
        run: |client, _, tally| repeat(client, "SELECT v FROM ks.n WHERE k = 1", tally),
    },
    Load {
        name: "16 × one element of a list of 500,000",
        clients: 16,
        fill: |client| list(client, LONG_ELEMENTS),
        run: |client, _, tally| repeat(client, "UPDATE ks.n SET v[0] = 7 WHERE k = 1", tally),
    },
    Load {
        name: "types, each twice the one before",
        clients: 1,
        fill: |_| Ok(()),
        run: |client, _, tally| {
            let (mut fields, mut level) = ("a int, b int".to_owned(), 0);
            while !tally.is_over() {
                let text = format!("CREATE TYPE ks.t{level} ({fields})");
                tally.note(&client.answer(&wire::query_frame(1, &text, None))?);
                fields = format!("a frozen<t{level}>, b frozen<t{level}>");
                level += 1;
            }
            Ok(())
        },
    },
    Load {
        name: "8 × ANN LIMIT 1000 of 300,000 rows",
        clients: 8,
        fill: vectors,
        run: |client, _, tally| {
            let query = "SELECT * FROM ks.v ORDER BY v ANN OF [1, 1, 1, 1, 1, 1, 1, 1] LIMIT 1000 \
                         ALLOW FILTERING";
            repeat(client, query, tally)
        },
    },
    Load {
        name: "30 × 50 LETs of rows of 1 MiB",
        clients: 30,
        fill: long_rows,
        run: |client, number, tally| {
            let row = |at: usize| {
                format!("LET r{at} = (SELECT v FROM ks.b WHERE k = {}); ", (at + number) % 64)
            };
            let lets: String = (0..50).map(row).collect();
            repeat(
                client,
                &format!("BEGIN TRANSACTION {lets} SELECT r1.v; COMMIT TRANSACTION"),
                tally,
            )
        },
    },
    Load {
        name: "64 × inserts of 1 MiB",
        clients: 64,
        fill: |client| client.query("CREATE TABLE ks.b (k int PRIMARY KEY, v text)"),
        run: |client, number, tally| {
            let id = client.prepare("INSERT INTO ks.b (k, v) VALUES (?, ?)")?;
            let key = i32::try_from(number).unwrap_or(0).to_be_bytes();
            let value = vec![b'x'; ROW_BYTES];
            let frame = wire::execute_values(1, &id, &[&key, &value], None);
            while !tally.is_over() {
                tally.note(&client.answer(&frame)?);
            }
            Ok(())
        },
    },
    Load {
        name: "64 × scans of rows of 1 MiB",
        clients: 64,
        fill: long_rows,
        run: |client, _, tally| repeat(client, "SELECT v FROM ks.b", tally),
    },
    Load {
        name: "40 × a cell of 12 MiB",
        clients: 40,
        fill: |client| number(client, "text", &vec![b'x'; 12 * MIB]),
        run: |client, _, tally| repeat(client, "SELECT v FROM ks.n WHERE k = 1", tally),
    },
    Load {
        name: "1,706 idle connections",
        clients: 1_706,
        fill: |_| Ok(()),
        run: |_, _, tally| {
            while !tally.is_over() {
                pause(Duration::from_millis(50));
            }
            Ok(())
        },
    },
    Load {
        name: "64 open transactions with rows of 1 MiB",
        clients: 64,
        fill: long_rows,
        run: |client, number, tally| {
            let value = "x".repeat(ROW_BYTES);
            tally.note(&client.answer(&wire::query_frame(1, "START TRANSACTION", None))?);
            for row in 0.. {
                if tally.is_over() {
                    break;
                }
                let key = number << 16 | row;
                let text = format!("INSERT INTO ks.b (k, v) VALUES ({key}, '{value}')");
                tally.note(&client.answer(&wire::query_frame(1, &text, None))?);
                // It writes more than its memory at first, and then goes on slowly.
                pause(Duration::from_millis(if row > 8 { 500 } else { 1 }));
            }
            Ok(())
        },
    },
];

/// Returns a selection of a term, many times.
fn times(term: &str, count: usize) -> String {
    format!("SELECT {} FROM ks.n WHERE k = 1", vec![term; count].join(", "))
}

/// Creates a table with one row of a long value.
fn number(client: &mut Client, kind: &str, value: &[u8]) -> io::Result<()> {
    client.query(&format!("CREATE TABLE ks.n (k int PRIMARY KEY, v {kind})"))?;
    let id = client.prepare("INSERT INTO ks.n (k, v) VALUES (?, ?)")?;
    client.execute(&id, &[&1_i32.to_be_bytes(), value])
}

/// Creates a table with one row of a long list.
fn list(client: &mut Client, elements: i32) -> io::Result<()> {
    client.query("CREATE TABLE ks.n (k int PRIMARY KEY, v list<int>)")?;
    let append = client.prepare("UPDATE ks.n SET v = v + ? WHERE k = ?")?;
    // A list value may have 65,535 elements.
    const PART: i32 = 50_000;
    for first in (0..elements).step_by(50_000) {
        let mut value = PART.to_be_bytes().to_vec();
        for element in first..first + PART {
            value.extend(4_i32.to_be_bytes());
            value.extend(element.to_be_bytes());
        }
        client.execute(&append, &[&value, &1_i32.to_be_bytes()])?;
    }
    Ok(())
}

fn long_rows(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.b (k int PRIMARY KEY, v text)")?;
    let id = client.prepare("INSERT INTO ks.b (k, v) VALUES (?, ?)")?;
    let value = vec![b'x'; ROW_BYTES];
    (0..LONG_ROWS).try_for_each(|key| client.execute(&id, &[&key.to_be_bytes(), &value]))
}

fn vectors(client: &mut Client) -> io::Result<()> {
    client.query("CREATE TABLE ks.v (k int PRIMARY KEY, v vector<float, 8>, t text)")?;
    for batch in 0..VECTORS / 500 {
        let row = |key: usize| {
            let part = |at: usize| format!("{}.5", (key * 31 + at * 17) % 1_000);
            let vector = (0..8).map(part).collect::<Vec<_>>().join(", ");
            format!("INSERT INTO ks.v (k, v, t) VALUES ({key}, [{vector}], '{key:0>60}'); ")
        };
        let inserts: String = (batch * 500..(batch + 1) * 500).map(row).collect();
        client.query(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"))?;
    }
    Ok(())
}
