//! Transactions as CQL statements.
//!
//! A list is a partition with a row for each element, numbered by a static count: one statement
//! reads several lists and appends to others, as one transaction. A flight's row has the
//! passenger's name in its key, too, so that two passengers who take one seat write different rows.
//! Reads come before writes, and the statement's `IF` holds the condition.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use carnet_checker::{Key, Op};

use super::transaction::{Condition, Transaction};
use super::workload::Workload;

/// Keyspace of the tables.
pub(super) const KEYSPACE: &str = "carnet_stress";
/// Table by which a later run recognizes the keyspace as one that it may drop.
pub(super) const MARKER: &str = "made_by_carnet_stress";

/// Statements that create the tables anew; the marker is the first.
pub(super) const SCHEMA: &[&str] = &[
    "DROP KEYSPACE IF EXISTS carnet_stress",
    "CREATE KEYSPACE carnet_stress \
     WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE carnet_stress.made_by_carnet_stress (k bigint PRIMARY KEY)",
    "CREATE TABLE carnet_stress.lists \
     (k bigint, seq bigint, n bigint static, v bigint, PRIMARY KEY (k, seq))",
    "CREATE TABLE carnet_stress.registers (k bigint PRIMARY KEY, v bigint)",
    "CREATE TABLE carnet_stress.seats (k bigint, n bigint, v bigint, PRIMARY KEY (k, n, v)) \
     WITH CLUSTERING ORDER BY (n DESC, v DESC)",
    "CREATE TABLE carnet_stress.accounts (k bigint PRIMARY KEY, v bigint)",
];

/// Returns the statement that inserts a list's count, or a flight's first row, which has no
/// passenger.
pub(super) fn opening(workload: Workload, key: &Key) -> String {
    match workload {
        Workload::Phantom => {
            format!("INSERT INTO carnet_stress.seats (k, n, v) VALUES ({key}, 0, 0) IF NOT EXISTS")
        }
        _ => format!("INSERT INTO carnet_stress.lists (k, n) VALUES ({key}, 0) IF NOT EXISTS"),
    }
}

/// Writes a transaction as one statement.
pub(super) fn statement(transaction: &Transaction) -> String {
    let Transaction { workload, ops, only_if } = transaction;
    let (mut reads, mut lists) = (BTreeSet::new(), BTreeMap::<&Key, Vec<i64>>::new());
    let (mut lets, mut writes) = (String::new(), String::new());
    for op in ops {
        match op {
            Op::ReadList { key, .. } | Op::ReadRegister { key, .. } => {
                reads.insert(key.to_string());
            }
            Op::Append { key, element } => lists.entry(key).or_default().push(*element),
            Op::Write { key, value } => {
                let set =
                    format_args!("UPDATE carnet_stress.registers SET v = {value} WHERE k = {key};");
                put(&mut writes, set);
            }
        }
    }
    let table = table_of(*workload);
    for (at, (key, elements)) in lists.iter().enumerate() {
        let last = format_args!("LET l{at} = (SELECT n FROM {table} WHERE k = {key} LIMIT 1);");
        put(&mut lets, last);
        append(&mut writes, *workload, at, key, elements);
    }
    let select = if reads.is_empty() {
        String::new()
    } else {
        let keys: Vec<String> = reads.into_iter().collect();
        format!("SELECT k, v FROM {table} WHERE k IN ({});", keys.join(", "))
    };
    if writes.is_empty() {
        return select;
    }
    if let Some(condition) = only_if {
        writes = format!("IF {} THEN {writes} END IF", condition_text(condition, &mut lets));
    }
    format!("BEGIN TRANSACTION {lets} {select} {writes} COMMIT TRANSACTION")
}

const fn table_of(workload: Workload) -> &'static str {
    match workload {
        Workload::ListAppend => "carnet_stress.lists",
        Workload::Register | Workload::WriteSkew => "carnet_stress.registers",
        Workload::Phantom => "carnet_stress.seats",
        Workload::Bank => "carnet_stress.accounts",
    }
}

/// Writes a condition, and the `LET` that it needs. Of a list that is appended to, the last row is
/// read.
fn condition_text(condition: &Condition, lets: &mut String) -> String {
    match condition {
        Condition::IsPositive(key) => {
            put(
                lets,
                format_args!("LET r = (SELECT v FROM carnet_stress.registers WHERE k = {key});"),
            );
            "r.v > 0".to_owned()
        }
        Condition::IsShorter(_, limit) => format!("l0.n < {limit}"),
    }
}

/// Appends elements to a list that has its count.
fn append(text: &mut String, workload: Workload, at: usize, key: &Key, elements: &[i64]) {
    for (place, element) in (1..).zip(elements) {
        let n = format!("l{at}.n + {place}");
        let insert = match workload {
            Workload::Phantom => {
                format!("INSERT INTO carnet_stress.seats (k, n, v) VALUES ({key}, {n}, {element});")
            }
            _ => format!(
                "INSERT INTO carnet_stress.lists (k, seq, v, n) VALUES ({key}, {n}, {element}, {n});"
            ),
        };
        put(text, format_args!("{insert}"));
    }
}

fn put(text: &mut String, more: fmt::Arguments<'_>) {
    writeln!(text, "{more}").expect("a string takes everything");
}

/// Fills in the values that were read, and leaves out writes that did not happen.
pub(super) fn answered(transaction: &Transaction, rows: &[(i64, Option<i64>)]) -> Vec<Op> {
    let of = |key: &Key| {
        let rows = rows.iter().filter(|(k, _)| Key::Int(*k) == *key);
        rows.filter_map(|(_, value)| *value).collect::<Vec<i64>>()
    };
    let list_of = |key: &Key| {
        let mut list = of(key);
        if transaction.workload == Workload::Phantom {
            // The last passenger comes first, and the flight's first row, without a passenger,
            // comes last.
            list.pop();
            list.reverse();
        }
        list
    };
    let filled = transaction.ops.iter().map(|op| match op {
        Op::ReadList { key, .. } => Op::ReadList { key: key.clone(), list: list_of(key) },
        Op::ReadRegister { key, .. } => Op::ReadRegister { key: key.clone(), value: of(key).pop() },
        Op::Append { .. } | Op::Write { .. } => op.clone(),
    });
    transaction.carried_out(filled.collect())
}
