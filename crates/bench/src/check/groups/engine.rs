//! The embedded database and its storage engine.

use super::super::group::{Better, Group};
use super::super::take::{text, text_of};

pub(super) fn groups() -> Vec<Group> {
    vec![embedded(), order(), storage(), deltas(), sustained(), interference()]
}

/// Transactions and reads of the embedded database.
fn embedded() -> Group {
    const COMMAND: &str = "carnet-bench --millis 700 --passes 3";
    let mut group = Group::new("embedded", "operation");
    for (key, title, line) in [
        ("put-hashed-always", "8 puts, hashed, always", "Put8Hashed   Always"),
        ("put-hashed-none", "8 puts, hashed, none", "Put8Hashed   None"),
        ("put-raw-always", "8 puts, raw, always", "Put8Raw      Always"),
        ("put-raw-none", "8 puts, raw, none", "Put8Raw      None"),
        ("get-hashed", "point read, hashed", "GetHashed    None"),
        ("get-raw", "point read, raw", "GetRaw       None"),
    ] {
        let line = |threads: u32| format!("^{line:<20}{threads:>8} ");
        for threads in [1, 2, 8, 32] {
            let unit = if threads == 1 { "thread" } else { "threads" };
            let row = (&*format!("{key}.{threads}"), &*format!("{title}, {threads} {unit}"));
            for (at, column) in
                [(1, ("rate", "operations/s")), (3, ("p50", "p50 µs")), (4, ("p99", "p99 µs"))]
            {
                group.add(row, column, COMMAND, text(&line(threads), at));
            }
            if threads > 1 {
                let column = ("ratio", "rate, to one thread");
                let ratio = group.add(row, column, COMMAND, text(&line(threads), 1));
                ratio.over(text(&line(1), 1)).better(Better::More);
            }
        }
    }
    group
}

/// Unordered writes beside ordered ones.
fn order() -> Group {
    const FEW: &str = "carnet-bench order --threads 1,2,32 --millis 1000 --passes 3";
    const EIGHT: &str = "carnet-bench order --threads 8 --millis 2000 --passes 3";
    let mut group = Group::new("order", "threads");
    for threads in [1, 2, 8, 32] {
        let command = if threads == 8 { EIGHT } else { FEW };
        let (name, line) = (threads.to_string(), format!("^{threads:>7} "));
        let row = (&*name, &*name);
        group.add(row, ("ordered", "ordered, keys/s"), command, text(&line, 1));
        group.add(row, ("unordered", "unordered, keys/s"), command, text(&line, 2));
        let ratio = group.add(row, ("ratio", "unordered, to ordered"), command, text(&line, 3));
        ratio.better(Better::More);
    }
    group
}

/// Counts of disk reads and bytes, and ratios of sizes and times.
fn storage() -> Group {
    const GETS: &str = "carnet-bench partition --rows 10000 --gets 400 --pages 5 --passes 1";
    const PAGES: &str = "carnet-bench partition --rows 100000 --gets 200 --pages 200 --passes 3";
    const COMMITS: &str = "carnet-bench commit-table --entries 30000";
    const UPDATES: &str = "carnet-bench deltas --count 20000";
    const SPACE: &str = "carnet-bench space --keys 2000 --writes 100000 --idle-millis 3000";
    let mut group = Group::new("storage", "figure");
    let mut add = |name: &str, title: &str, command: &str, take| {
        group.add((name, title), ("", "value"), command, take).better(Better::Less).counted =
            command != SPACE && command != PAGES;
    };
    let reads = "disk reads of a cold get in a wide partition, at most";
    add("cold-get", reads, GETS, text("reads by a cold get", -2));
    let reads = "disk reads of a hot get in a wide partition, at most";
    add("hot-get", reads, GETS, text("reads by a hot get", -2));
    let bytes = "bytes of a commit entry on disk, encoding v1, 30,000 entries";
    add("commit-entry-v1", bytes, COMMITS, text("V1", 0));
    let bytes = "bytes of a commit entry on disk, encoding v2, 30,000 entries";
    add("commit-entry-v2", bytes, COMMITS, text("V2", 0));
    let bytes = "bytes of filters of these entries, encoding v1";
    add("commit-filters-v1", bytes, COMMITS, text("V1", 1));
    let bytes = "bytes of filters of these entries, encoding v2";
    add("commit-filters-v2", bytes, COMMITS, text("V2", 1));
    let reads = "disk reads of 10,000 updates of a column of a cold table of 20,000 rows";
    add("update-reads", reads, UPDATES, text("updates:", -1));
    let reads = "disk reads of the same updates if they read their row";
    add("reading-update-reads", reads, UPDATES, text_of("updates:", 1, -1));
    let space = "space after overwriting and a compaction by hand, to the live data";
    add("space", space, SPACE, text("compacted by hand", -1));
    let space = "space after a pause without writes, to the live data";
    add("space-paused", space, SPACE, text("after a pause", -1));
    let pages = "a page of 100 rows descending, to ascending";
    add("descending-page", pages, PAGES, text("times as long", 0));
    group
}

/// Reads and updates by the number of deltas above the row's image.
fn deltas() -> Group {
    const COMMAND: &str =
        "carnet-bench deltas --rows 2000 --passes 3 --clients 100 --busy 4 --millis 300";
    let mut group = Group::new("deltas", "of what, of which operation");
    for (name, title, line, nth) in [
        ("get-memtable", "8 deltas, point read, in memtables", "  in memtables", 1),
        ("get-table", "8 deltas, point read, in cached tables", "  in tables, cached", 1),
        ("get-compacted", "8 deltas, point read, compacted", "  compacted, cached", 1),
        ("slice-memtable", "8 deltas, slice of 100 rows, in memtables", "  in memtables", 0),
        ("slice-table", "8 deltas, slice of 100 rows, in cached tables", "  in tables, cached", 0),
        ("update-cached", "read of the row, update of one column, cached", "  cached", 0),
        ("update-cold", "read of the row, update of one column, cold", "  cold ", 0),
    ] {
        let (row, at) = ((name, title), |number| text_of(line, nth, number));
        group.add(row, ("without", "without, µs"), COMMAND, at(0));
        group.add(row, ("with", "with, µs"), COMMAND, at(-1));
        let ratio = group.add(row, ("ratio", "with, to without"), COMMAND, at(-1));
        ratio.over(at(0)).better(Better::Less);
    }
    group
}

/// Writes of several times the memory.
fn sustained() -> Group {
    const COMMAND: &str = "carnet-bench sustained --seconds 31 --every 10";
    let mut group = Group::new("sustained", "figure");
    let value = ("", "value");
    for (name, title, line) in [
        ("first", "keys/s in the first 10 s", "^      10 "),
        ("third", "keys/s in the third 10 s", "^      30 "),
    ] {
        group.add((name, title), value, COMMAND, text(line, 2));
    }
    let row = ("slowdown", "keys/s in the third 10 s, to the first");
    let slowdown = group.add(row, value, COMMAND, text("^      30 ", 2));
    slowdown.over(text("^      10 ", 2)).better(Better::More);
    let row = ("amplification", "bytes written to tables, to the bytes of the rows");
    let take = text("write amplification", 0);
    group.add(row, value, COMMAND, take).better(Better::Less);
    let row =
        ("amplification-log", "bytes written to tables and the log, to the bytes of the rows");
    let take = text("write amplification", 1);
    group.add(row, value, COMMAND, take).better(Better::Less);
    let row = ("memory", "most memory, to the budget of 112 MiB");
    let memory = group.add(row, value, COMMAND, text("most memory", -1));
    memory.over(text("memory budget", 0)).better(Better::Less);
    let row = ("longest", "longest write, ms");
    group.add(row, value, COMMAND, text("most memory", -2));
    group
}

/// Reads from the device beside a compaction, with and without the I/O scheduler.
fn interference() -> Group {
    const COMMAND: &str = "carnet-bench interference --rounds 1";
    let mut group = Group::new("interference", "figure");
    for (name, title, at) in [
        ("p50", "reads beside a compaction, p50 µs", 4),
        ("p99", "reads beside a compaction, p99 µs", 5),
        ("compaction", "compaction beside reads, MB/s", 3),
    ] {
        let row = (name, title);
        group.add(row, ("off", "without scheduler"), COMMAND, text("^false", at));
        group.add(row, ("on", "with scheduler"), COMMAND, text("^true", at));
        let better = if name == "compaction" { Better::More } else { Better::Less };
        let ratio = group.add(row, ("ratio", "with, to without"), COMMAND, text("^true", at));
        ratio.over(text("^false", at)).better(better);
    }
    group
}
