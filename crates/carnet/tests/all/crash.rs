//! Transfers on a simulated disk that loses power at a sync: afterwards every acknowledged transfer
//! is present, none is present in part, and the sum of balances is unchanged.
//!
//! The seed determines the workload, the sync at which the power fails, and which unsynced writes
//! survive. Replay one with `CARNET_SEED=n cargo test -p carnet --test all crash::`; run more with
//! `CARNET_CRASH_SEEDS=n`.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use carnet::{Db, Durability, ErrorKind, Key, Result, Table, Tx, record};
use carnet_base::{Rng, SeededRng, Stepped};
use carnet_storage::disk::sim::SimDisk;

const ACCOUNTS: i32 = 12;
const BALANCE: i64 = 100;
const CLIENTS: usize = 3;
const TRANSFERS: u64 = 60;
const SEEDS: u64 = 300;

record! {
    struct Account {
        balance: i64,
    }
}

record! {
    struct Transfer {
        from: i32,
        to: i32,
        amount: i64,
    }
}

struct Bank {
    db: Db,
    workers: Stepped,
    accounts: Table<Key<(i32,)>, Account>,
    transfers: Table<Key<(i32,), (i64,)>, Transfer>,
}

/// Runs a future, stepping the database's workers while it pends.
fn drive<T>(workers: &Stepped, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
        workers.settle();
    }
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

impl Bank {
    fn open(disk: &SimDisk, durability: Durability, flush_bytes: usize) -> Result<Self> {
        let workers = Stepped::default();
        let db = Db::builder()
            .durability(durability)
            .flush_bytes(flush_bytes)
            .spawn(Arc::new(workers.clone()))
            .open_on(Arc::new(disk.clone()))?;
        let accounts = drive(&workers, db.table_async("bank.accounts"))?;
        let transfers = drive(&workers, db.table_async("bank.transfers"))?;
        Ok(Self { db, workers, accounts, transfers })
    }

    fn fill(&self) -> Result<()> {
        let tx = self.begin()?;
        drive(&self.workers, async {
            for id in 0..ACCOUNTS {
                self.accounts.put(&tx, &Key((id,), ()), &Account { balance: BALANCE }).await?;
            }
            tx.commit().await.map(drop)
        })
    }

    fn begin(&self) -> Result<Tx> {
        drive(&self.workers, async { self.db.transaction().begin_async().await })
    }

    /// Moves money between two accounts and records the transfer, but does not commit.
    async fn transfer(&self, tx: &Tx, number: i64, from: i32, to: i32, amount: i64) -> Result<()> {
        for (id, change) in [(from, -amount), (to, amount)] {
            let key = Key((id,), ());
            let account = self.accounts.get(tx, &key).await?.unwrap();
            let balance = account.balance + change;
            self.accounts.put(tx, &key, &Account { balance }).await?;
        }
        let key = Key((from % 3,), (number,));
        self.transfers.put(tx, &key, &Transfer { from, to, amount }).await
    }

    /// Checks the sum of balances; returns the numbers of the recorded transfers.
    fn audit(&self) -> Result<std::result::Result<Vec<i64>, String>> {
        let snapshot = self.db.snapshot()?;
        let mut balances: BTreeMap<i32, i64> = (0..ACCOUNTS).map(|id| (id, BALANCE)).collect();
        let mut numbers = Vec::new();
        for row in self.transfers.scan(&snapshot) {
            let (key, transfer) = row?;
            *balances.get_mut(&transfer.from).unwrap() -= transfer.amount;
            *balances.get_mut(&transfer.to).unwrap() += transfer.amount;
            numbers.push(key.1.0);
        }
        let found = self.accounts.scan(&snapshot);
        let found = found
            .map(|row| row.map(|(key, account)| (key.0.0, account.balance)))
            .collect::<Result<BTreeMap<i32, i64>>>()?;
        // The power may have failed before the accounts were written.
        if found.is_empty() && numbers.is_empty() {
            return Ok(Ok(numbers));
        }
        if found != balances {
            return Ok(Err(format!("balances {found:?}, by the transfers {balances:?}")));
        }
        Ok(Ok(numbers))
    }
}

/// Runs transfers of several concurrent clients until all are done or the disk fails; returns the
/// acknowledged ones.
fn run(bank: &Bank, rng: &mut SeededRng, first: u64) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut next = first;
    while next < first + TRANSFERS {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            next += 1;
            let Ok(tx) = bank.begin() else { return acknowledged };
            let account = |rng: &mut SeededRng| {
                i32::try_from(rng.below(u64::from(ACCOUNTS.unsigned_abs()))).unwrap()
            };
            let from = account(rng);
            let to = (from + 1 + account(rng) % (ACCOUNTS - 1)) % ACCOUNTS;
            let amount = i64::try_from(rng.below(20)).unwrap();
            let number = i64::try_from(next).unwrap();
            if drive(&bank.workers, bank.transfer(&tx, number, from, to, amount)).is_err() {
                return acknowledged;
            }
            clients.push((number, tx));
        }
        let mut commits: Vec<_> = clients
            .iter()
            .map(|(number, tx)| (*number, Some(Box::pin(async move { tx.commit().await }))))
            .collect();
        while commits.iter().any(|(_, commit)| commit.is_some()) {
            for (number, slot) in &mut commits {
                let Some(commit) = slot else { continue };
                let Poll::Ready(result) = poll(commit.as_mut()) else { continue };
                *slot = None;
                match result.map_err(|error| error.kind()) {
                    Ok(_) => acknowledged.push(*number),
                    Err(ErrorKind::Conflict) => {}
                    Err(_) => return acknowledged,
                }
            }
            bank.workers.step(usize::try_from(rng.below(4)).unwrap());
        }
    }
    acknowledged
}

/// Runs one seed; returns the first violation, if any.
fn check(seed: u64, durability: Durability, break_disk: impl Fn(&SimDisk)) -> Option<String> {
    let mut rng = SeededRng::new(seed);
    let disk = SimDisk::new(rng.next_u64());
    let flush_bytes = if rng.chance(500) { 2_000 } else { 1 << 20 };
    // In most runs the accounts exist before the first fault.
    let early = rng.chance(100);
    let power_goes = |rng: &mut SeededRng| disk.halt_at_sync(disk.syncs() + 1 + rng.below(30));
    if early {
        power_goes(&mut rng);
    }
    let mut acknowledged = Vec::new();
    if let Ok(bank) = Bank::open(&disk, durability, flush_bytes)
        && bank.fill().is_ok()
    {
        break_disk(&disk);
        if !early {
            power_goes(&mut rng);
        }
        acknowledged = run(&bank, &mut rng, 0);
        disk.halt();
    }
    let disk = disk.crash(&mut rng);
    let bank = match Bank::open(&disk, durability, flush_bytes) {
        Ok(bank) => bank,
        Err(error) => return Some(format!("cannot be opened again: {error}")),
    };
    let found = match bank.audit() {
        Err(error) => return Some(format!("cannot be read: {error}")),
        Ok(Err(wrong)) => return Some(wrong),
        Ok(Ok(found)) => found,
    };
    if durability == Durability::Always
        && let Some(lost) = acknowledged.iter().find(|number| !found.contains(number))
    {
        return Some(format!("transfer {lost} was acknowledged, and is lost"));
    }
    // The recovered database works: more transfers commit.
    let mut again = SeededRng::new(seed);
    if !found.is_empty() {
        run(&bank, &mut again, 10_000);
        if let Ok(Err(wrong)) | Err(wrong) = bank.audit().map_err(|error| error.to_string()) {
            return Some(format!("after going on: {wrong}"));
        }
    }
    None
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    match number("CARNET_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("CARNET_CRASH_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[test]
fn acknowledged_transfers_survive_whole() {
    for seed in seeds() {
        if let Some(wrong) = check(seed, Durability::Always, |_| {}) {
            panic!(
                "seed {seed}: {wrong}\n\
                 replay: CARNET_SEED={seed} cargo test -p carnet --test all crash::nothing_acknowledged"
            );
        }
    }
}

#[test]
fn lost_transfers_are_lost_whole_without_fsync() {
    for seed in seeds() {
        if let Some(wrong) = check(seed, Durability::None, |_| {}) {
            panic!(
                "seed {seed}: {wrong}\n\
                 replay: CARNET_SEED={seed} cargo test -p carnet --test all crash::without_fsync"
            );
        }
    }
}

/// Tests the check itself: it must detect a disk that ignores the log's fsync.
#[test]
fn ignored_fsync_is_detected() {
    let lie = |disk: &SimDisk| disk.lie_about_syncs("wal-");
    let caught = (0..SEEDS).filter(|seed| check(*seed, Durability::Always, lie).is_some()).count();
    assert!(caught > 0, "none of {SEEDS} seeds detected that the log is never synced");
}

/// A commit whose acknowledgement is lost fails with `Unknown`; its start timestamp gives the
/// outcome.
#[test]
fn failed_sync_makes_commit_unknown_until_recovery() {
    let mut outcomes = Vec::new();
    for seed in 0..20 {
        let mut rng = SeededRng::new(seed);
        let disk = SimDisk::new(seed);
        let bank = Bank::open(&disk, Durability::Always, 1 << 20).unwrap();
        bank.fill().unwrap();
        let tx = bank.begin().unwrap();
        let start = tx.start_timestamp().unwrap();
        drive(&bank.workers, bank.transfer(&tx, 1, 0, 1, 5)).unwrap();
        disk.halt_at_sync(disk.syncs() + 1);
        let error = drive(&bank.workers, tx.commit()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown { start }, "{error}");
        drop((tx, bank));
        let bank = Bank::open(&disk.crash(&mut rng), Durability::Always, 1 << 20).unwrap();
        let is_there = bank.audit().unwrap().unwrap() == [1];
        let outcome = bank.db.outcome(start).unwrap();
        assert_eq!(matches!(outcome, carnet::Outcome::Committed(_)), is_there, "{outcome:?}");
        outcomes.push(is_there);
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "both ends happen");
}
