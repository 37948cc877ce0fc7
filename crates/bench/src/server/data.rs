//! The tables of the workloads.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::frame::{HEADER_LEN, Response, put_batch};
use crate::wire;

/// Number of rows of `ks.rows`, which have one partition each.
pub(super) const ROWS: u64 = 100_000;
/// Number of partitions of `ks.wide`, and of their rows.
pub(super) const PARTITIONS: u64 = 20;
pub(super) const WIDE_ROWS: u64 = 5_000;
/// Number of rows of `ks.accounts`.
pub(super) const ACCOUNTS: u64 = 10_000;
/// Length of a value.
pub(super) const VALUE_LEN: usize = 100;
/// Number of rows of a batch.
const BATCH_ROWS: u64 = 100;

const TABLES: [&str; 4] = [
    "CREATE TABLE ks.rows (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE ks.inserts (k bigint PRIMARY KEY, v blob)",
    "CREATE TABLE ks.wide (p bigint, c bigint, v blob, PRIMARY KEY (p, c))",
    "CREATE TABLE ks.accounts (id bigint PRIMARY KEY, balance bigint)",
];

/// Creates and fills the tables.
pub(super) fn fill(address: SocketAddr) -> io::Result<()> {
    let mut tcp = wire::connect(address)?;
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    wire::query(&mut tcp, &format!("CREATE KEYSPACE ks WITH replication = {replication}"))?;
    TABLES.iter().try_for_each(|table| wire::query(&mut tcp, table))?;
    let value = [b'x'; VALUE_LEN];
    let insert = "INSERT INTO ks.rows (k, v) VALUES (?, ?)";
    insert_all(&mut tcp, insert, ROWS, &value)?;
    let insert = "INSERT INTO ks.accounts (id, balance) VALUES (?, ?)";
    insert_all(&mut tcp, insert, ACCOUNTS, &1_000_000_i64.to_be_bytes())?;
    for partition in 0..PARTITIONS {
        let insert = format!("INSERT INTO ks.wide (p, c, v) VALUES ({partition}, ?, ?)");
        insert_all(&mut tcp, &insert, WIDE_ROWS, &value)?;
    }
    Ok(())
}

/// Inserts rows with the keys from 0 to `rows` and the same value.
fn insert_all(tcp: &mut TcpStream, insert: &str, rows: u64, value: &[u8]) -> io::Result<()> {
    let id = wire::prepare(tcp, insert)?;
    let keys: Vec<[u8; 8]> = (0..rows).map(u64::to_be_bytes).collect();
    for keys in keys.chunks(usize::try_from(BATCH_ROWS).unwrap_or(usize::MAX)) {
        let items: Vec<[&[u8]; 2]> = keys.iter().map(|key| [key.as_slice(), value]).collect();
        let mut frame = Vec::new();
        put_batch(&mut frame, 0, &id, &items);
        tcp.write_all(&frame)?;
        let mut answer = vec![0; HEADER_LEN];
        tcp.read_exact(&mut answer)?;
        let len = u32::from_be_bytes([answer[5], answer[6], answer[7], answer[8]]);
        answer.resize(HEADER_LEN + usize::try_from(len).unwrap_or(0), 0);
        tcp.read_exact(&mut answer[HEADER_LEN..])?;
        if let Some(response) = Response::first(&answer)?.filter(|response| response.is_error) {
            return Err(io::Error::other(response.message()));
        }
    }
    Ok(())
}
