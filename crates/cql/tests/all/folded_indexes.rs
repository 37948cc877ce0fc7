//! Indexes that fold texts: queries agree with a fold of the test's own, and entries with the rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::derived::{Differences, check_index};
use carnet::{Db, Durability, block_on, catalog};
use carnet_base::{Clock, Rng, SeededRng};
use carnet_storage::disk::sim::SimDisk;

use crate::support;
use crate::support::client::Client;
use crate::support::derived::{Manual, at, below};

/// Options of an index, and the texts that are equal behind it, some in each row.
struct Fold {
    options: &'static str,
    classes: &'static [&'static [&'static str]],
}

const FOLDS: [Fold; 4] = [
    Fold {
        options: "'case_sensitive': 'false'",
        classes: &[
            &["a", "A"],
            &["á", "Á"],
            &["a\u{301}", "A\u{301}"],
            &["ß"],
            &["ss", "SS", "sS"],
        ],
    },
    Fold {
        options: "'normalize': 'true'",
        classes: &[&["a"], &["A"], &["á", "a\u{301}"], &["Á", "A\u{301}"], &["ﬃ"]],
    },
    Fold {
        options: "'ascii': 'true'",
        classes: &[&["a", "á", "ａ"], &["A", "Á"], &["a\u{301}"], &["ß", "ss"], &["ﬃ", "ffi"]],
    },
    Fold {
        options: "'case_sensitive': 'false', 'normalize': 'true', 'ascii': 'true'",
        classes: &[
            &["a", "A", "á", "Á", "a\u{301}", "A\u{301}", "ａ"],
            &["ß", "ss", "SS"],
            &["é", "E"],
        ],
    },
];

impl Fold {
    /// Draws a text.
    fn text(&self, rng: &mut SeededRng) -> &'static str {
        let class = self.classes[at(rng, self.classes.len())];
        class[at(rng, class.len())]
    }

    fn are_equal(&self, one: &str, other: &str) -> bool {
        self.classes.iter().any(|class| class.contains(&one) && class.contains(&other))
    }
}

/// Returns a statement that changes a row.
fn change(fold: &Fold, rng: &mut SeededRng) -> String {
    let (k, c, ttl) = (below(rng, 3), below(rng, 3), 1 + below(rng, 3));
    let (x, y, z) = (fold.text(rng), fold.text(rng), fold.text(rng));
    let row = format!("k = {k} AND c = {c}");
    match below(rng, 9) {
        0 | 1 => format!(
            "INSERT INTO t (k, c, w, e, m) VALUES ({k}, {c}, '{x}', {{'{y}', '{z}'}}, {{'{x}': '{y}'}})"
        ),
        2 => format!("UPDATE t SET w = '{x}', s = '{y}' WHERE {row}"),
        3 => format!("UPDATE t USING TTL {ttl} SET w = '{x}', m['{y}'] = '{z}' WHERE {row}"),
        4 => format!("UPDATE t SET e = e + {{'{x}'}}, m = m - {{'{y}'}} WHERE {row}"),
        5 => format!("UPDATE t USING TTL {ttl} SET e = e + {{'{x}'}} WHERE {row}"),
        6 => format!("UPDATE t SET e = e - {{'{x}'}}, w = null WHERE {row}"),
        7 => format!("DELETE w, s FROM t WHERE {row}"),
        _ => format!("DELETE FROM t WHERE {row}"),
    }
}

/// Returns the rows, as keys with one of the texts, that a query of texts returns.
fn rows(client: &Client, select: &str) -> Vec<Vec<String>> {
    let rows = client.all_rows(select, None);
    let text = |bytes: Option<carnet::Bytes>| match bytes {
        Some(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        None => String::new(),
    };
    rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
}

/// Compares an equality condition on the column `w` or `s` with the stored texts.
fn check_equality(client: &Client, fold: &Fold, column: &str, wanted: &str) {
    let cast = "CAST(k AS text), CAST(c AS text)";
    let all = rows(client, &format!("SELECT {cast}, {column} FROM t"));
    let is_wanted = |row: &&Vec<String>| fold.are_equal(&row[2], wanted);
    let expected: BTreeSet<Vec<String>> = all.iter().filter(is_wanted).cloned().collect();
    let select = format!("SELECT {cast}, {column} FROM t WHERE {column} = '{wanted}'");
    for behind in ["", " AND k IN (0, 1, 2) ALLOW FILTERING", " AND c >= 0 ALLOW FILTERING"] {
        let found = rows(client, &format!("{select}{behind}"));
        let found: BTreeSet<Vec<String>> = found.into_iter().collect();
        assert_eq!(found, expected, "{select}{behind}: {}", fold.options);
    }
}

/// Compares `CONTAINS` on the elements of a set with elements that the rows have.
fn check_contains(client: &Client, fold: &Fold, wanted: &str) {
    let cast = "CAST(k AS text), CAST(c AS text), toJson(e)";
    let all = rows(client, &format!("SELECT {cast} FROM t"));
    let has = |row: &&Vec<String>| {
        let elements: Option<Vec<String>> = serde_json::from_str(&row[2]).unwrap();
        elements.unwrap_or_default().iter().any(|element| fold.are_equal(element, wanted))
    };
    let expected: BTreeSet<Vec<String>> = all.iter().filter(has).cloned().collect();
    let select = format!("SELECT {cast} FROM t WHERE e CONTAINS '{wanted}'");
    let found: BTreeSet<Vec<String>> = rows(client, &select).into_iter().collect();
    assert_eq!(found, expected, "{select}: {}", fold.options);
}

fn check_entries(client: &Client) {
    block_on(async {
        let tx = client.executor.db().snapshot_async().await.unwrap();
        let schema = catalog::table(&tx, "ks", "t").await.unwrap().unwrap();
        assert_eq!(schema.indexes.len(), 4);
        for index in &schema.indexes {
            assert!(index.is_built, "{}", index.name);
            let differences = check_index(&tx, &schema, index).await.unwrap();
            assert_eq!(differences, Differences::default(), "{}", index.name);
        }
    });
}

/// Runs statements on a table whose indexes are created among them, and opens the database anew.
fn agree(rng: &mut SeededRng, fold: &Fold) {
    let clock = Arc::new(Manual(AtomicI64::new(0)));
    let disk = SimDisk::new(rng.next_u64());
    let open = || {
        let builder = Db::builder().clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let builder = builder.durability(Durability::None).flush_bytes(4_000);
        Client::new(builder.open_on(Arc::new(disk.clone())).unwrap())
    };
    let mut client = open();
    client.run(
        "CREATE TABLE t (k int, c int, s text STATIC, w text, e set<text>, m map<text, text>, \
         PRIMARY KEY (k, c))",
    );
    for _ in 0..20 {
        client.run(&change(fold, rng));
    }
    for target in ["w", "s", "VALUES(e)", "KEYS(m)"] {
        let options = fold.options;
        client.run(&format!(
            "CREATE CUSTOM INDEX ON t ({target}) USING 'sai' WITH OPTIONS = {{{options}}}"
        ));
    }
    for step in 0..40 {
        client.run(&change(fold, rng));
        match below(rng, 6) {
            0 => drop(clock.0.fetch_add(1, Ordering::SeqCst)),
            1 => client.executor.db().flush().unwrap(),
            2 => check_entries(&client),
            _ => {}
        }
        if step == 20 {
            drop(client);
            client = open();
        }
        check_equality(&client, fold, ["w", "s"][at(rng, 2)], fold.text(rng));
        check_contains(&client, fold, fold.text(rng));
    }
    check_entries(&client);
}

#[test]
fn queries_agree_with_stored_texts() {
    for fold in &FOLDS {
        support::with_seeds(1, |rng| agree(rng, fold));
    }
}
