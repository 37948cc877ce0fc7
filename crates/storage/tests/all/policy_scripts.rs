//! Golden scripts of the compaction policies: which tables are compacted next, and why.
//!
//! No table is read: a policy decides from the manifest alone. Rewrite the expected output with
//! `UPDATE_GOLDENFILES=1 cargo test -p carnet-storage --test all policy_scripts::`, and read the diff.
//!
//! ```text
//! policy leveled|tiered
//! table 0 a..f                     a table of level 0 with the keys a to f, of 10 cells and 10,000 bytes
//! table 1 a..f cells=40            … of four times that
//! table 1 a..f deleted=5           … five of its cells are tombstones
//! readers 100                      no reader is older than commit 100; each table has a commit of its own
//! choose                           what the policy does next; a compaction runs from then on
//! finish                           the oldest running compaction ends, with one table as its output
//! tables                           the tables by level
//! ```

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write as _;

use carnet_base::Timestamp;
use carnet_storage::compaction::merge::Mark;
use carnet_storage::compaction::policy::{
    Choice, CompactionState, Config, Leveled, Plan, Policy, Tiered,
};
use carnet_storage::manifest::{Edit, LEVELS, Levels, TableMeta, Tally, VersionKind};
use goldenscript::Command;

use crate::support;

const CELL_BYTES: u64 = 1_000;
const CELLS: u64 = 10;

struct Script {
    policy: Box<dyn Policy>,
    config: Config,
    levels: Levels,
    state: CompactionState,
    running: VecDeque<Plan>,
    next_table: u64,
    commit: u64,
}

impl Script {
    fn new() -> Self {
        let table_bytes = CELLS * CELL_BYTES;
        let config = Config {
            base_bytes: 4 * table_bytes,
            table_bytes,
            memtable_bytes: table_bytes,
            ..Config::default()
        };
        Self {
            policy: Box::new(Leveled),
            config,
            levels: Levels::default(),
            state: CompactionState::default(),
            running: VecDeque::new(),
            next_table: 1,
            commit: 0,
        }
    }

    fn table(&mut self, command: &Command) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let level: u8 = args.next_pos().ok_or("no level")?.parse()?;
        let keys = args.next_pos().ok_or("no keys")?;
        let (first, last) = keys.split_once("..").ok_or("no range of keys")?;
        let number =
            |name: &str, default| args.take_key(name).map_or(Ok(default), str::parse::<u64>);
        let mut number = number;
        let (cells, deleted) = (number("cells", CELLS)?, number("deleted", 0)?);
        self.commit += 1;
        let mut tally = Tally::default();
        for cell in 0..cells {
            // The first and the last key, and the others between them.
            let key = if cell + 1 == cells { last.to_owned() } else { format!("{first}{cell:04}") };
            let kind = if cell < deleted { VersionKind::Tombstone } else { VersionKind::Value };
            tally.cell(&flat(&key), at(self.commit), None, kind);
        }
        let table = tally.finish(self.next_table, level, cells * CELL_BYTES).ok_or("no cells")?;
        self.next_table += 1;
        let said = format!("{}\n", describe(&table));
        self.levels.edit(&Edit { add: vec![table], ..Edit::default() })?;
        Ok(said)
    }

    fn choose(&mut self) -> Result<String, Box<dyn Error>> {
        let choice = self.policy.choose(&self.levels, &self.config, &self.state);
        let edit = choice.edit(&self.levels);
        if let Some(edit) = edit {
            self.levels.edit(&edit)?;
        }
        Ok(match choice {
            Choice::Nothing => "nothing\n".to_owned(),
            Choice::Move { tables, from, to } => {
                format!("move {} unread from level {from} to level {to}\n", numbers(tables))
            }
            Choice::Drop(tables) => format!("drop {} unread\n", numbers(tables)),
            Choice::Compact(plan) => {
                let mut said = format!("compact because of {:?}:", plan.reason);
                for (level, tables) in &plan.inputs {
                    let tables = numbers(tables.iter().map(|table| table.number));
                    let _ = write!(said, " {tables} of level {level},");
                }
                let _ = writeln!(said, " into level {}", plan.output_level);
                self.state.begin(&plan);
                self.running.push_back(plan);
                said
            }
        })
    }

    fn finish(&mut self) -> Result<String, Box<dyn Error>> {
        let plan = self.running.pop_front().ok_or("no compaction is running")?;
        let cells: u64 =
            plan.tables().map(|table| table.contents.cells - table.contents.tombstones).sum();
        let mut tally = Tally::default();
        for cell in 0..cells {
            let mut key = plan.hull.lower.to_vec();
            if cell > 0 {
                key.extend(format!("{cell:04}").bytes());
            }
            tally.cell(&key, at(self.commit), None, VersionKind::Value);
        }
        let table = tally.finish(self.next_table, plan.output_level, cells * CELL_BYTES);
        self.next_table += 1;
        let mut table = table.ok_or("the compaction has no output")?;
        table.range = plan.hull.clone();
        let said = format!("{}\n", describe(&table));
        let remove = plan.numbers().collect();
        self.levels.edit(&Edit { add: vec![table], remove, ..Edit::default() })?;
        self.state.end(&plan);
        Ok(said)
    }

    fn tables(&self) -> String {
        let mut said = String::new();
        for table in (0..LEVELS).flat_map(|level| self.levels.level(level)) {
            let _ = writeln!(said, "{}", describe(table));
        }
        said
    }
}

fn at(commit: u64) -> Timestamp {
    Timestamp::new(commit).unwrap()
}

/// Returns the bytes of a key, behind those of a table.
fn flat(key: &str) -> Vec<u8> {
    [&1000_u32.to_be_bytes()[..], key.as_bytes()].concat()
}

fn numbers(tables: impl IntoIterator<Item = u64>) -> String {
    let texts: Vec<String> = tables.into_iter().map(|table| table.to_string()).collect();
    texts.join(" ")
}

fn describe(table: &TableMeta) -> String {
    let text = |key: &[u8]| String::from_utf8_lossy(&key[4..]).replace('\0', "");
    let (lower, upper) = (text(&table.range.lower), text(&table.range.upper));
    let TableMeta { number, level, bytes, .. } = table;
    format!("level {level}: table {number}, {lower} to {upper}, {bytes} bytes")
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        _: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let first = command.consume_args().next_pos();
        Ok(match (command.name.as_str(), first) {
            ("policy", Some("leveled")) => {
                self.policy = Box::new(Leveled);
                String::new()
            }
            ("policy", Some("tiered")) => {
                self.policy = Box::new(Tiered);
                String::new()
            }
            ("table", _) => self.table(command)?,
            ("readers", Some(commit)) => {
                self.state.observe(&Mark { read: at(commit.parse()?), ..Mark::default() });
                String::new()
            }
            ("choose", None) => self.choose()?,
            ("finish", None) => self.finish()?,
            ("tables", None) => self.tables(),
            other => return Err(format!("unknown command {other:?}").into()),
        })
    }
}

#[test]
fn script_of_leveled_compaction() {
    support::run_script(&mut Script::new(), "policy/leveled");
}

#[test]
fn script_of_level_sizes() {
    support::run_script(&mut Script::new(), "policy/size");
}

#[test]
fn script_of_tiered_compaction() {
    support::run_script(&mut Script::new(), "policy/tiered");
}

#[test]
fn script_of_garbage() {
    support::run_script(&mut Script::new(), "policy/garbage");
}
