//! Tables of the activity of a node, as Cassandra has them.

use std::sync::Arc;

use carnet::{DataType, Uuid};
use carnet_admission::{Class, Figures};

use super::encode::{self, Cell};
use super::table::{Content, SYSTEM, SystemTable, VIEWS, clustering, partition, regular};

/// Carnet keeps sums of its compactions, in its metrics, and no list of them.
pub(super) fn compaction_history() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "compaction_history",
        comment: "week-long compaction history",
        uuid: Uuid::from_u128(0xb4dbb7b4_dc49_3fb5_b3bf_ce6e434832ca),
        content: Content::Nothing,
        columns: vec![
            partition("id", DataType::Uuid),
            regular("bytes_in", DataType::Bigint),
            regular("bytes_out", DataType::Bigint),
            regular("columnfamily_name", DataType::Text),
            regular("compacted_at", DataType::Timestamp),
            regular("compaction_properties", DataType::map(DataType::Text, DataType::Text))
                .frozen(),
            regular("keyspace_name", DataType::Text),
            regular("rows_merged", DataType::map(DataType::Int, DataType::Bigint)),
        ],
    }
}

/// Carnet measures no rate of reads for each of its files.
pub(super) fn sstable_activity() -> SystemTable {
    SystemTable {
        keyspace: SYSTEM,
        name: "sstable_activity",
        comment: "historic sstable read rates",
        uuid: Uuid::from_u128(0x5a1ff267_ace0_3f12_8563_cfae6103c65e),
        content: Content::Nothing,
        columns: vec![
            partition("keyspace_name", DataType::Text),
            partition("columnfamily_name", DataType::Text),
            partition("generation", DataType::Int),
            regular("rate_120m", DataType::Double),
            regular("rate_15m", DataType::Double),
        ],
    }
}

pub(super) fn thread_pools_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "thread_pools",
        comment: "statements that run and wait, by their class",
        uuid: Uuid::nil(),
        content: Content::ThreadPools,
        columns: vec![
            partition("name", DataType::Text),
            regular("active_tasks", DataType::Int),
            regular("active_tasks_limit", DataType::Int),
            regular("blocked_tasks", DataType::Bigint),
            regular("blocked_tasks_all_time", DataType::Bigint),
            regular("completed_tasks", DataType::Bigint),
            regular("pending_tasks", DataType::Int),
        ],
    }
}

/// Returns the classes of statements under the names of Cassandra's pools. There is no limit of the number
/// of running statements: it follows the processors.
pub(super) fn thread_pools(
    table: &SystemTable,
    figures: &(dyn Fn(Class) -> Option<Figures> + Sync),
) -> Vec<Vec<Cell>> {
    let int = |number: usize| encode::int(i32::try_from(number).unwrap_or(i32::MAX));
    let row = |class: Class| {
        let found = figures(class)?;
        let name = match class {
            Class::Read => "ReadStage",
            Class::Write => "MutationStage",
            Class::System => "Native-Transport-Requests",
        };
        let completed = found.admitted.saturating_sub(found.running as u64);
        Some(table.row([
            ("name", encode::text(name)),
            ("active_tasks", int(found.running)),
            ("blocked_tasks", encode::count(0)),
            ("blocked_tasks_all_time", encode::count(found.throttled)),
            ("completed_tasks", encode::count(completed)),
            ("pending_tasks", int(found.waiting)),
        ]))
    };
    Class::ALL.into_iter().filter_map(row).collect()
}

/// Figures of a service level in a class.
#[derive(Clone, Debug)]
pub(crate) struct LevelFigures {
    pub(crate) name: Arc<str>,
    /// Its shares; `None` for a level that was dropped.
    pub(crate) shares: Option<u32>,
    pub(crate) figures: Figures,
}

pub(super) fn service_levels_table() -> SystemTable {
    SystemTable {
        keyspace: VIEWS,
        name: "service_levels",
        comment: "statements of each service level that had any since the start, by class",
        uuid: Uuid::nil(),
        content: Content::ServiceLevels,
        columns: vec![
            partition("level", DataType::Text),
            clustering("class", DataType::Text),
            regular("admitted", DataType::Bigint),
            regular("refused", DataType::Bigint),
            regular("running", DataType::Int),
            regular("shares", DataType::Int),
            regular("throttled", DataType::Bigint),
            regular("waited_seconds", DataType::Double),
            regular("waiting", DataType::Int),
        ],
    }
}

/// Returns a row for each level and class, sorted by the level.
pub(super) fn service_levels(
    table: &SystemTable,
    levels: &(dyn Fn(Class) -> Vec<LevelFigures> + Sync),
) -> Vec<Vec<Cell>> {
    let int = |number: usize| encode::int(i32::try_from(number).unwrap_or(i32::MAX));
    let of_class = |class: Class| levels(class).into_iter().map(move |level| (class, level));
    let mut rows: Vec<(Class, LevelFigures)> = Class::ALL.into_iter().flat_map(of_class).collect();
    rows.sort_by(|(a, one), (b, other)| (&one.name, a.name()).cmp(&(&other.name, b.name())));
    let row = |(class, level): (Class, LevelFigures)| {
        let LevelFigures { name, shares, figures } = level;
        let refused = figures.shed_overloaded + figures.shed_deadline + figures.shed_memory;
        let shares = shares.and_then(|shares| usize::try_from(shares).ok());
        table.row([
            ("level", encode::text(&name)),
            ("class", encode::text(class.name())),
            ("admitted", encode::count(figures.admitted)),
            ("refused", encode::count(refused)),
            ("running", int(figures.running)),
            ("shares", shares.and_then(int)),
            ("throttled", encode::count(figures.throttled)),
            ("waited_seconds", encode::double(figures.waited.as_secs_f64())),
            ("waiting", int(figures.waiting)),
        ])
    };
    rows.into_iter().map(row).collect()
}
