//! Golden scripts of the engine: recovery, flush, compaction and range tombstones, as stories.
//!
//! Rewrite the expected output with `UPDATE_GOLDENFILES=1 cargo test -p carnet-storage --test all scripts::`, and read
//! the diff. The disk is simulated, and the engine's threads run only where a command says so.
//!
//! ```text
//! append a=1 b=2       appends a transaction to the log, which is not synced yet
//! append drop=b..d delete=a
//!                      one that deletes the cells from b up to, not including, d, and the cell a
//! sync                 runs the log's thread: prints the commits that are acknowledged then
//! commit a=1           both
//! get a                get a at=3          the cell, or the cell as of commit 3
//! range a..z           range a..z at=3 reverse=true
//! flush                writes the memtable to a table
//! compact              merges all tables into one level
//! forget 3             permits garbage collection of versions that no reader at commit 3 or later sees
//! tables               the tables of the manifest, by level; each commit has a version of its own, its entry
//! close                closes the engine and opens it again
//! kill                 kills the process: the next one finds all writes, synced or not
//! crash                the power fails: writes that were not synced may be lost
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::ops::Bound;
use std::sync::Arc;
use std::task::Poll;

use carnet_base::{
    Bytes, CellKey, KeyRange, PartitionKey, SeededRng, Stepped, TableId, Timestamp, block_on,
};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Appended, Engine, Mutation, Options, PageLimit, inspect};
use goldenscript::{Argument, Command};

use crate::support;
use crate::support::{Forget, poll, time};

const TABLE: TableId = TableId(1000);

/// Index of the log's thread among the engine's.
const LOG: usize = 0;

struct Script {
    disk: SimDisk,
    rng: SeededRng,
    engine: Option<(Engine, Stepped, Arc<Forget>)>,
    waiting: Vec<(Timestamp, Appended)>,
    last: u64,
}

impl Script {
    fn new() -> Self {
        let mut script = Self {
            disk: SimDisk::new(1),
            rng: SeededRng::new(1),
            engine: None,
            waiting: Vec::new(),
            last: 0,
        };
        script.open().unwrap();
        script
    }

    /// Opens the database; returns the last commit that it finds.
    fn open(&mut self) -> carnet_base::Result<String> {
        let (engine, workers) = support::open(&self.disk, Options::default())?;
        let found = engine.published();
        let forget = Forget::nothing_yet(&engine);
        self.engine = Some((engine, workers, forget));
        self.waiting.clear();
        Ok(format!("opened, the last commit is {found}\n"))
    }

    fn engine(&self) -> &Engine {
        &self.engine.as_ref().unwrap().0
    }

    fn append(&mut self, command: &Command) -> Result<String, Box<dyn Error>> {
        let (mut cells, mut ranges) = (BTreeMap::new(), Vec::new());
        for argument in &command.args {
            match argument {
                Argument::KeyValue(key, value) if key == "drop" => ranges.push(range(value)?),
                Argument::KeyValue(key, name) if key == "delete" => {
                    cells.insert(cell(name), None);
                }
                Argument::KeyValue(key, value) => {
                    cells.insert(cell(key), Some(Bytes::from(value.clone())));
                }
                other => return Err(format!("unknown argument {other}").into()),
            }
        }
        let puts =
            cells.iter().map(|(key, payload)| Mutation::put_or_delete(key, payload.as_deref()));
        let deletes = ranges.iter().map(|range| Mutation::DeleteRange { range });
        let commit = time(self.last + 1);
        let engine = self.engine();
        let prepared = engine.prepare(commit, puts.chain(deletes))?;
        let appended = engine.append(prepared, || Ok::<_, carnet_base::Error>(commit))?;
        self.last += 1;
        self.waiting.push((commit, appended));
        Ok(format!("appended at {commit}\n"))
    }

    fn sync(&mut self) -> String {
        let mut said = String::new();
        self.engine.as_ref().unwrap().1.step(LOG);
        self.waiting.retain_mut(|(commit, appended)| match poll(appended) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                let _ = match outcome {
                    Ok(_) => writeln!(said, "acknowledged {commit}"),
                    Err(error) => writeln!(said, "{commit}: {error}"),
                };
                false
            }
        });
        said
    }

    /// Continues on another disk, as another process.
    fn restart(&mut self, disk: SimDisk) -> carnet_base::Result<String> {
        self.engine = None;
        self.disk = disk;
        let said = self.open();
        self.last = self.engine().published().get().max(self.last);
        said
    }

    fn read_at(&self, command: &Command) -> Result<Timestamp, Box<dyn Error>> {
        let at = command.consume_args().take_key("at").map(str::parse).transpose()?;
        Ok(at.map_or_else(|| self.engine().published(), time))
    }

    fn range(&self, command: &Command) -> Result<String, Box<dyn Error>> {
        let read = self.read_at(command)?;
        let reverse = command.consume_args().take_key("reverse") == Some("true");
        let ends = command.consume_args().next_pos().ok_or("no range")?;
        let mut said = String::new();
        let mut rest = Some(range(ends)?);
        while let Some(range) = rest {
            let page = block_on(self.engine().range(
                &range,
                read,
                reverse,
                PageLimit { cells: 2, bytes: 1 << 20 },
            ))?;
            for cell in page.cells.iter() {
                let (key, value) = (text(cell.key.clustering()), text(cell.payload));
                let _ = writeln!(said, "{key}={value}");
            }
            rest = page.resume;
        }
        Ok(if said.is_empty() { "nothing\n".into() } else { said })
    }

    fn tables(&self) -> Result<String, Box<dyn Error>> {
        let manifest = inspect::load(&self.disk)?;
        let mut said = String::new();
        for table in manifest.levels.iter() {
            let contents = &table.contents;
            let _ = writeln!(
                said,
                "level {}: {} versions, {} of them tombstones, {} range tombstones",
                table.level, contents.cells, contents.tombstones, contents.range_tombstones
            );
        }
        Ok(if said.is_empty() { "no tables\n".into() } else { said })
    }
}

fn cell(name: &str) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new("p"), name)
}

/// Returns the range of a text such as `a..d`.
fn range(text: &str) -> Result<KeyRange, Box<dyn Error>> {
    let (lower, upper) = text.split_once("..").ok_or_else(|| format!("{text} is no range"))?;
    let bound = |name: &str| Bytes::from(name.to_owned());
    let (lower, upper) = (Bound::Included(bound(lower)), Bound::Excluded(bound(upper)));
    Ok(KeyRange::clustering(TABLE, &PartitionKey::new("p"), lower, upper))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        _: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let first = command.consume_args().next_pos();
        Ok(match command.name.as_str() {
            "append" => self.append(command)?,
            "sync" => self.sync(),
            "commit" => self.append(command)? + &self.sync(),
            "get" => {
                let name = first.ok_or("no cell")?;
                let found = block_on(self.engine().get(&cell(name), self.read_at(command)?))?;
                match found.and_then(|version| version.payload) {
                    Some(payload) => format!("{name}={}\n", text(&payload)),
                    None => format!("{name} does not exist\n"),
                }
            }
            "range" => self.range(command)?,
            "flush" => {
                self.engine().flush()?;
                String::new()
            }
            "compact" => {
                self.engine().compact()?;
                String::new()
            }
            "forget" => {
                let below = first.ok_or("no commit")?.parse()?;
                self.engine.as_ref().unwrap().2.below(time(below));
                String::new()
            }
            "tables" => self.tables()?,
            "close" => {
                let (engine, _workers, _) = self.engine.take().unwrap();
                engine.close()?;
                self.restart(self.disk.clone())?
            }
            "kill" => self.restart(self.disk.kill())?,
            "crash" => {
                let disk = self.disk.crash(&mut self.rng);
                self.restart(disk)?
            }
            other => return Err(format!("unknown command {other}").into()),
        })
    }
}

#[test]
fn script_of_recovery() {
    support::run_script(&mut Script::new(), "recovery");
}

#[test]
fn script_of_flush() {
    support::run_script(&mut Script::new(), "flush");
}

#[test]
fn script_of_compaction() {
    support::run_script(&mut Script::new(), "compaction");
}

#[test]
fn script_of_range_tombstones() {
    support::run_script(&mut Script::new(), "range_tombstones");
}
