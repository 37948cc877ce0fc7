//! A server under more load than it can do.

use super::super::group::{Better, Group};
use super::super::take::{json, text};
use super::Field;
use crate::harm;

pub(super) fn groups() -> Vec<Group> {
    let (single, heavy) = ([shares(), logins()], [beside(), compaction()]);
    [goodput(), multiget(), memory(), allocator(), harm()]
        .into_iter()
        .chain(single)
        .chain(heavy)
        .collect()
}

/// Good answers at multiples of the capacity.
fn goodput() -> Group {
    let mut group = Group::new("goodput", "offered");
    for factor in ["2", "5", "10"] {
        let command = &*format!(
            "carnet-bench overload --pin --seconds 2 --rounds 3 --factors {factor} --json"
        );
        let row = (factor, &*format!("{factor} ×"));
        let on = |field| json(&[("gate", "true"), ("factor", factor)], field);
        let off = |field| json(&[("gate", "false"), ("factor", factor)], field);
        group.add(row, ("capacity", "capacity/s"), command, on("capacity"));
        group.add(row, ("good", "good/s"), command, on("good"));
        let column = ("part", "good, of the capacity");
        group.add(row, column, command, on("good")).over(on("capacity")).better(Better::More);
        let column = ("off", "the same without gate");
        group.add(row, column, command, off("good")).over(off("capacity"));
        let column = ("after", "after the load, of the capacity");
        group.add(row, column, command, on("after")).over(on("capacity")).better(Better::More);
        let fields: [Field; 4] = [
            ("shed", "refused/s", "shed"),
            ("late", "late/s", "late"),
            ("processor", "µs of processor per answer", "processor_us"),
            ("peak", "peak MiB", "peak_mib"),
        ];
        for (name, title, field) in fields {
            group.add(row, (name, title), command, on(field));
        }
    }
    group
}

/// Multi-gets of few and many keys.
fn multiget() -> Group {
    const COMMAND: &str = "carnet-bench multiget --millis 500 --clients 2,16 --keys 1,4,10,12,13,16 --rounds 3 --json";
    let mut group = Group::new("multiget", "load");
    for clients in ["2", "16"] {
        for keys in ["1", "4", "10", "12", "13", "16"] {
            let at = |keys, field| {
                json(&[("fair", "false"), ("clients", clients), ("keys", keys)], field)
            };
            let unit = if keys == "1" { "key" } else { "keys" };
            let title = format!("{clients} clients, {keys} {unit}");
            let row = (&*format!("{clients}.{keys}"), &*title);
            let fields: [Field; 5] = [
                ("requests", "requests/s", "requests_per_s"),
                ("keys", "keys/s", "keys_per_s"),
                ("client", "µs at the client", "client_us"),
                ("gate", "µs at the gate", "gate_us"),
                ("table", "µs in the table", "table_us"),
            ];
            for (name, title, field) in fields {
                group.add(row, (name, title), COMMAND, at(keys, field));
            }
            if keys != "1" {
                let take = at(keys, "requests_per_s");
                let ratio = group.add(row, ("ratio", "requests, to one key"), COMMAND, take);
                ratio.over(at("1", "requests_per_s")).better(Better::More);
            }
        }
    }
    group
}

/// Loads of long answers.
const LONG_ANSWERS: [(&str, &str); 3] = [
    ("scans", "200 scans of 1-MiB rows"),
    ("unread", "1,000 unread pages"),
    ("pipelined", "250 × 20 MiB, one connection"),
];
const MEMORY: &str = "carnet-bench overload --memory --seconds 3 --rounds 2 --json";

/// Memory under long answers.
fn memory() -> Group {
    const COMMAND: &str = MEMORY;
    /// The aim, in MiB.
    const AIM: f64 = 320.0;
    let mut group = Group::new("memory", "load");
    for (name, load) in LONG_ANSWERS {
        let (row, at) = ((name, load), |field| json(&[("load", load)], field));
        group.add(row, ("before", "before, MiB"), COMMAND, at("held.before_mib"));
        group.add(row, ("peak", "at most, MiB"), COMMAND, at("held.peak_mib"));
        let part = group.add(row, ("part", "of 320 MiB"), COMMAND, at("held.peak_mib"));
        part.over_number(AIM).better(Better::Less);
        let column = ("after", "after 10 s, of the most");
        let after = group.add(row, column, COMMAND, at("held.after_mib"));
        after.over(at("held.peak_mib")).better(Better::Less);
        group.add(row, ("answered", "answered in 3 s"), COMMAND, at("held.answered"));
    }
    group
}

/// The same with other delays until free memory goes back to the system.
fn allocator() -> Group {
    let mut group = Group::new("allocator", "load");
    for (name, load) in LONG_ANSWERS {
        let (row, at) = ((name, load), |field| json(&[("load", load)], field));
        for delay in ["0", "100"] {
            let command = &*format!("MIMALLOC_PURGE_DELAY={delay} {MEMORY}");
            let column = (&*format!("peak-{delay}"), &*format!("{delay} ms: at most, to 10 ms"));
            let peak = group.add(row, column, command, at("held.peak_mib"));
            peak.over_other(MEMORY, at("held.peak_mib")).better(Better::Equal);
            let column =
                (&*format!("after-{delay}"), &*format!("{delay} ms: after 10 s, to 10 ms"));
            let after = group.add(row, column, command, at("held.after_mib"));
            after.over_other(MEMORY, at("held.after_mib"));
            let column =
                (&*format!("answered-{delay}"), &*format!("{delay} ms: answered, to 10 ms"));
            // Pages that clients do not read have no answers.
            if name != "unread" {
                let answered = group.add(row, column, command, at("held.answered"));
                answered.over_other(MEMORY, at("held.answered"));
            }
        }
    }
    group
}

/// Memory and point reads beside clients that ask for much.
fn harm() -> Group {
    const COMMAND: &str = "carnet-bench harm --seconds 3 --json";
    /// The aims, in MiB and in milliseconds.
    const AIMS: [f64; 2] = [320.0, 100.0];
    let mut group = Group::new("harm", "load");
    for (at, load) in harm::load_names().enumerate() {
        let row = (&*(at + 1).to_string(), load);
        let at = |field| json(&[("load", load)], field);
        group.add(row, ("peak", "at most, MiB"), COMMAND, at("peak_mib"));
        let memory = group.add(row, ("memory", "of 320 MiB"), COMMAND, at("peak_mib"));
        memory.over_number(AIMS[0]).better(Better::Less);
        group.add(row, ("p50", "read, p50 ms"), COMMAND, at("p50_ms"));
        group.add(row, ("p99", "read, p99 ms"), COMMAND, at("p99_ms"));
        let longest =
            group.add(row, ("longest", "longest read, of 100 ms"), COMMAND, at("longest_ms"));
        longest.over_number(AIMS[1]).better(Better::Less);
        group.add(row, ("refused", "refused"), COMMAND, at("refused"));
    }
    group
}

/// Two levels with shares of 1000 and 100.
fn shares() -> Group {
    const COMMAND: &str = "carnet-bench overload --shares --seconds 3";
    let mut group = Group::new("shares", "figure");
    let value = ("", "value");
    for (name, title, at) in [
        ("large", "answers a second of the level of 1000 shares", 1),
        ("small", "answers a second of the level of 100 shares", 3),
    ] {
        group.add((name, title), value, COMMAND, text("shares 1000", at));
    }
    let row = ("ratio", "answers of the level of 1000 shares, to the other");
    group.add(row, value, COMMAND, text("shares 1000", -2)).better(Better::Equal);
    group
}

/// Refused log-ins of users that exist, and of others.
fn logins() -> Group {
    const COMMAND: &str = "carnet-bench logins --tries 200";
    let mut group = Group::new("logins", "figure");
    let value = ("", "value");
    let known = "log-in of a known user, median ms";
    group.add(("known", known), value, COMMAND, text("^known", 1));
    let unknown = "log-in of an unknown user, median ms";
    group.add(("unknown", unknown), value, COMMAND, text("^unknown", 1));
    let row = ("ratio", "known, to unknown");
    let ratio = group.add(row, value, COMMAND, text("^known", 1));
    ratio.over(text("^unknown", 1)).better(Better::Equal);
    let row = ("probability", "probability that the known user's takes longer");
    group.add(row, value, COMMAND, text("^P(known", 0)).better(Better::Equal);
    group
}

/// Point reads beside heavy statements.
fn beside() -> Group {
    const COMMAND: &str = "carnet-bench overload --pin --beside --seconds 2 --rounds 3 --json";
    let mut group = Group::new("beside", "beside");
    for (name, title, load) in [
        ("alone", "nothing", "alone"),
        ("count", "4 × `count(*)` of 20,000 rows", "4 × count(*) of 20,000 rows"),
        ("in-500", "8 × `IN` of 500 keys", "8 × 500 keys"),
        ("in-10000", "1 × `IN` of 10,000 keys", "1 × 10,000 keys"),
        ("scans", "200 scans of 1-MiB rows", "200 scans of 1-MiB rows"),
    ] {
        let (row, at) = ((name, title), |field| json(&[("beside", load)], field));
        let alone = |field| json(&[("beside", "alone")], field);
        group.add(row, ("p50", "p50 µs"), COMMAND, at("p50_us"));
        group.add(row, ("p99", "p99 µs"), COMMAND, at("p99_us"));
        if name != "alone" {
            let p50 = group.add(row, ("p50-ratio", "p50, to idle"), COMMAND, at("p50_us"));
            p50.over(alone("p50_us")).better(Better::Less);
            let p99 = group.add(row, ("p99-ratio", "p99, to idle"), COMMAND, at("p99_us"));
            p99.over(alone("p99_us")).better(Better::Less);
        }
        group.add(row, ("longest", "longest µs"), COMMAND, at("max_us"));
        group.add(row, ("done", "heavy statements in 2 s"), COMMAND, at("done_beside"));
    }
    group
}

/// Point reads beside compactions.
fn compaction() -> Group {
    const COMMAND: &str = "carnet-bench overload --compaction --seconds 4 --rounds 3 --json";
    let mut group = Group::new("compaction", "figure");
    for (name, title, alone, beside, better) in [
        ("p50", "reads, p50 µs", "alone_p50_us", "beside_p50_us", Better::Less),
        ("p99", "reads, p99 µs", "alone_p99_us", "beside_p99_us", Better::Less),
        ("speed", "compactions, MiB/s", "alone_mib_per_s", "beside_mib_per_s", Better::More),
    ] {
        let row = (name, title);
        let at = |field: &str| json(&[], &format!("compaction.{field}"));
        group.add(row, ("alone", "alone"), COMMAND, at(alone));
        group.add(row, ("beside", "beside each other"), COMMAND, at(beside));
        let ratio = group.add(row, ("ratio", "beside, to alone"), COMMAND, at(beside));
        ratio.over(at(alone)).better(better);
    }
    let row = ("slow", "reads that take the server more than 250 µs, %");
    let at = |field: &str| json(&[], &format!("compaction.{field}"));
    group.add(row, ("alone", "alone"), COMMAND, at("alone_slow_percent"));
    group.add(row, ("beside", "beside each other"), COMMAND, at("beside_slow_percent"));
    group
}
