//! A cluster as one process sees it, whose calls fail as a test's script says.
//!
//! A *ghost* is an entry whose conditional write timed out and lives on one replica; the test
//! decides whether a call meets it. A put that meets the ghost is refused by it, and a put that
//! does not takes its place. A touch that meets the ghost completes it, and a touch that does not
//! makes it vanish. This is harsher than any real cluster.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::{
    Bytes, CellKey, Epoch, Error, ErrorKind, KeyRange, Rng as _, SeededRng, TableId, Timestamp,
    Version,
};
use carnet_store::cluster::{
    Acknowledge, ClusterCells, CommitRow, CommitRows, EntryPage, Fault, Faulty, MemoryCluster,
    NewEntry, Overwrite, ReadMode, Register, Registers, RestoredRows, RowAnswer, SetAnswer,
    StoredEntry, VersionName, VersionPage, VersionWrite,
};
use carnet_store::{Context, PageLimit, RangeRequest};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    Write,
    Put,
    Touch,
    Confirm,
    ReadEntries,
    Move,
    Overwrite,
    Stamp,
    Delete,
    DeleteOlder,
    Set(Register),
    Read(Register),
}

/// A scripted effect on a call.
#[derive(Clone)]
pub enum Effect {
    /// The call is applied, and the answer is lost.
    LoseAnswer,
    /// The call is not applied, and its outcome is unknown.
    LoseRequest,
    /// The call is refused as wrong: no retry would succeed.
    Refuse,
    /// A node is overloaded and does not apply the call.
    Overload,
    /// The call waits at a gate, and is applied then.
    Hold(Arc<Gate>),
    /// The call lives on one replica, and its outcome is unknown.
    Ghost,
}

/// A gate at which calls wait.
#[derive(Default)]
pub struct Gate(Mutex<(bool, Vec<Waker>, usize)>);

impl Gate {
    pub fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        let waiting = std::mem::take(&mut gate.1);
        drop(gate);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of calls that have arrived.
    pub fn arrived(&self) -> usize {
        self.0.lock().unwrap().2
    }

    async fn pass(&self) {
        self.0.lock().unwrap().2 += 1;
        poll_fn(|context| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// State that all processes share.
#[derive(Default)]
pub struct Replicas {
    pub memory: MemoryCluster,
    ghosts: Mutex<BTreeMap<(CommitRow, Bytes), Bytes>>,
    /// Whether calls meet ghosts, if it is not left to chance.
    pub meets_ghosts: AtomicBool,
    chance: Mutex<Option<SeededRng>>,
}

impl Replicas {
    /// Makes each call meet each ghost at random.
    pub fn leave_to_chance(&self, seed: u64) {
        *self.chance.lock().unwrap() = Some(SeededRng::new(seed));
    }

    fn met(&self, row: &CommitRow, column: &Bytes) -> Option<Bytes> {
        let by_chance = self.chance.lock().unwrap().as_mut().map(|rng| rng.chance(500));
        if !by_chance.unwrap_or(self.meets_ghosts.load(Ordering::SeqCst)) {
            return None;
        }
        self.ghosts.lock().unwrap().get(&(row.clone(), column.clone())).cloned()
    }

    /// Touching an entry completes a ghost that it meets, and removes a ghost that it does not.
    async fn complete(&self, row: &CommitRow, entries: &[NewEntry]) {
        for NewEntry { column, .. } in entries {
            if let Some(value) = self.met(row, column) {
                let entry = NewEntry { column: column.clone(), value };
                self.memory.put_unless_exists(row, None, &[entry]).await.unwrap();
            }
            self.ghosts.lock().unwrap().remove(&(row.clone(), column.clone()));
        }
    }

    async fn epoch(&self, row: &CommitRow) -> Faulty<Option<Epoch>> {
        match self.memory.move_epoch(row, Some(Epoch(0)), Epoch(0)).await? {
            RowAnswer::Refused { epoch, .. } => Ok(epoch),
            RowAnswer::Applied => panic!("no row is of epoch 0"),
        }
    }

    fn end(&self, row: &CommitRow, entries: &[NewEntry]) {
        let mut ghosts = self.ghosts.lock().unwrap();
        for NewEntry { column, .. } in entries {
            ghosts.remove(&(row.clone(), column.clone()));
        }
    }

    /// Returns the ghosts that a put meets, which refuse it and remain. If the put is applied,
    /// removes the others.
    fn refusing(&self, row: &CommitRow, entries: &[NewEntry]) -> Vec<StoredEntry> {
        let met = |entry: &NewEntry| {
            let staged = Some(self.met(row, &entry.column)?);
            Some(StoredEntry { column: entry.column.clone(), staged, confirmed: None })
        };
        entries.iter().filter_map(met).collect()
    }
}

/// A scripted call: its kind, how many more calls the rule applies to, and the effect.
type Rule = (Op, usize, Effect);

/// A cluster as one process sees it.
pub struct Scripted {
    pub replicas: Arc<Replicas>,
    script: Mutex<Vec<Rule>>,
    calls: Mutex<BTreeMap<Op, usize>>,
}

impl Scripted {
    pub fn new(replicas: &Arc<Replicas>) -> Arc<Self> {
        let replicas = Arc::clone(replicas);
        Arc::new(Self { replicas, script: Mutex::default(), calls: Mutex::default() })
    }

    /// Applies an effect to the next `times` calls of a kind.
    pub fn script(&self, op: Op, times: usize, effect: Effect) {
        self.script.lock().unwrap().push((op, times, effect));
    }

    /// Holds all calls of a kind, until the gate is opened.
    pub fn hold(&self, op: Op) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.script(op, usize::MAX, Effect::Hold(Arc::clone(&gate)));
        gate
    }

    /// Returns the number of calls of a kind so far.
    pub fn calls(&self, op: Op) -> usize {
        self.calls.lock().unwrap().get(&op).copied().unwrap_or(0)
    }

    fn next(&self, op: Op) -> Option<Effect> {
        *self.calls.lock().unwrap().entry(op).or_default() += 1;
        let mut script = self.script.lock().unwrap();
        let at = script.iter().position(|(scripted, times, _)| *scripted == op && *times > 0)?;
        script[at].1 -= 1;
        Some(script[at].2.clone())
    }

    /// Makes a call as the script says.
    async fn call<T>(&self, op: Op, call: impl Future<Output = Faulty<T>>) -> Faulty<T> {
        match self.next(op) {
            None => call.await,
            Some(Effect::LoseAnswer) => {
                call.await?;
                Err(Fault::timed_out("a scripted call"))
            }
            Some(Effect::LoseRequest | Effect::Ghost) => Err(Fault::timed_out("a scripted call")),
            Some(Effect::Refuse) => Err(Fault::Failed(Error::invalid("the row is too large"))),
            Some(Effect::Overload) => {
                let kind = ErrorKind::Overloaded { retry_after: Duration::from_millis(1) };
                Err(Fault::Failed(Error::new(kind, "a scripted call")))
            }
            Some(Effect::Hold(gate)) => {
                gate.pass().await;
                call.await
            }
        }
    }
}

impl ClusterCells for Scripted {
    async fn write_versions(&self, context: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        self.call(Op::Write, self.replicas.memory.write_versions(context, writes)).await
    }

    async fn read_version(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        self.replicas.memory.read_version(context, key, through).await
    }

    async fn read_range(&self, context: &Context, request: &RangeRequest) -> Faulty<VersionPage> {
        self.replicas.memory.read_range(context, request).await
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        self.replicas.memory.scan_versions(range, limit).await
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        self.replicas.memory.tables().await
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        self.call(Op::Stamp, self.replicas.memory.stamp_versions(stamps)).await
    }

    async fn delete_versions(&self, versions: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.call(Op::Delete, self.replicas.memory.delete_versions(versions, all)).await
    }

    async fn delete_older(&self, than: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.call(Op::DeleteOlder, self.replicas.memory.delete_older(than, all)).await
    }
}

impl CommitRows for Scripted {
    async fn put_unless_exists(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> Faulty<RowAnswer> {
        let put = async {
            let ghosts = self.replicas.refusing(row, entries);
            if ghosts.is_empty() {
                let answer = self.replicas.memory.put_unless_exists(row, fence, entries).await?;
                if answer == RowAnswer::Applied {
                    self.replicas.end(row, entries);
                }
                return Ok(answer);
            }
            // The other reasons for the refusal are reported too, the row's epoch first.
            let columns: Vec<Bytes> = entries.iter().map(|entry| entry.column.clone()).collect();
            let mut existing = self.replicas.memory.read_entries(row, &columns).await?;
            existing.extend(ghosts);
            Ok(RowAnswer::Refused { epoch: self.replicas.epoch(row).await?, existing })
        };
        let is_ghost = matches!(
            self.script.lock().unwrap().iter().find(|(op, times, _)| *op == Op::Put && *times > 0),
            Some((_, _, Effect::Ghost))
        );
        // No replica takes a write that the fence forbids.
        if is_ghost && (fence.is_none() || self.replicas.epoch(row).await? == fence) {
            let mut ghosts = self.replicas.ghosts.lock().unwrap();
            for NewEntry { column, value } in entries {
                ghosts.insert((row.clone(), column.clone()), value.clone());
            }
        }
        self.call(Op::Put, put).await
    }

    async fn touch(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<RowAnswer> {
        let touch = async {
            self.replicas.complete(row, entries).await;
            self.replicas.memory.touch(row, entries).await
        };
        self.call(Op::Touch, touch).await
    }

    async fn confirm(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<()> {
        self.call(Op::Confirm, self.replicas.memory.confirm(row, entries)).await
    }

    async fn read_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<StoredEntry>> {
        let read = async {
            let mut found = self.replicas.memory.read_entries(row, columns).await?;
            for column in columns {
                if let Some(value) = self.replicas.met(row, column) {
                    let column = column.clone();
                    found.push(StoredEntry { column, staged: Some(value), confirmed: None });
                }
            }
            Ok(found)
        };
        self.call(Op::ReadEntries, read).await
    }

    async fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        self.replicas.memory.scan_entries(row, after, limit).await
    }

    async fn delete_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<()> {
        self.replicas.memory.delete_entries(row, columns).await
    }

    async fn move_epoch(
        &self,
        row: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> Faulty<RowAnswer> {
        self.call(Op::Move, self.replicas.memory.move_epoch(row, from, to)).await
    }
}

impl RestoredRows for Scripted {
    async fn scan_replicas(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        let mut page = self.replicas.memory.scan_replicas(row, after, limit).await?;
        let ghosts = self.replicas.ghosts.lock().unwrap();
        // All ghosts come with the first page; there are only a few.
        for ((_, column), value) in ghosts.iter().filter(|((of, _), _)| of == row) {
            if after.is_none() && !page.entries.iter().any(|entry| entry.column == *column) {
                let (column, staged) = (column.clone(), Some(value.clone()));
                page.entries.push(StoredEntry { column, staged, confirmed: None });
            }
        }
        Ok(page)
    }

    async fn overwrite(&self, row: &CommitRow, entries: &[Overwrite]) -> Faulty<RowAnswer> {
        let overwrite = async {
            for Overwrite { column, .. } in entries {
                let name = (row.clone(), column.clone());
                let ghost = self.replicas.ghosts.lock().unwrap().get(&name).cloned();
                // The read from all replicas has repaired it.
                if let Some(value) = ghost {
                    let entry = NewEntry { column: column.clone(), value };
                    self.replicas
                        .memory
                        .put_unless_exists(row, None, std::slice::from_ref(&entry))
                        .await?;
                    self.replicas.end(row, &[entry]);
                }
            }
            self.replicas.memory.overwrite(row, entries).await
        };
        self.call(Op::Overwrite, overwrite).await
    }
}

impl Registers for Scripted {
    async fn read_register(&self, register: Register, mode: ReadMode) -> Faulty<Option<Bytes>> {
        let read = self.replicas.memory.read_register(register, mode);
        self.call(Op::Read(register), read).await
    }

    async fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Faulty<SetAnswer> {
        let set = self.replicas.memory.compare_and_set(register, expected, new);
        self.call(Op::Set(register), set).await
    }
}
