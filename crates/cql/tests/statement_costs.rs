//! Costs of statements on large values, in allocated bytes and in steps: a short statement holds
//! little memory beyond its answer, and takes few steps between two places where it yields.
//!
//! Costs are counted, not timed. The clock advances by a time slice at each reading, so that a
//! statement yields wherever it can. The costs need a process to themselves: the allocator counts the
//! bytes of all threads.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

mod costs;
#[path = "all/support/seeds.rs"]
mod support;

use std::cell::{Cell, RefCell};

use carnet_base::{Rng, SeededRng};

use carnet_cql::SECTION_STEPS_MAX;
use costs::client::Client;
use costs::{seeds, statements};
use support::with_seeds;

/// Maximum memory that a statement holds beyond its answer, and beyond the rows it writes.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Maximum number of steps between two places where a statement yields: a section, and the last check.
const TURN_STEPS_MAX: u64 = SECTION_STEPS_MAX + (1 << 14);

/// Number of statements for each seed of the fuzzer.
const STATEMENTS: usize = 20;

/// Number of seeds after which the tables are filled again.
const SEEDS: u32 = 20;

/// Runs a statement and checks its cost. `CARNET_COSTS_SHOWN` prints it.
fn check(client: &Client, text: &str) {
    let cost = client.cost(text);
    let shown: String = text.chars().take(200).collect();
    if std::env::var_os("CARNET_COSTS_SHOWN").is_some() {
        println!("{} KiB, {} steps in a turn: {shown}", cost.held_bytes >> 10, cost.turn_steps);
    }
    assert!(
        cost.held_bytes <= HELD_BYTES_MAX,
        "{} bytes of statement hold {} MiB beyond an answer of {} bytes: {shown}",
        text.len(),
        cost.held_bytes >> 20,
        cost.answer_bytes
    );
    assert!(cost.turn_steps <= TURN_STEPS_MAX, "{} steps in a turn: {shown}", cost.turn_steps);
}

#[test]
fn known_costly_statements_are_bounded() {
    let client = costs::client();
    for text in seeds::all() {
        check(&client, &text);
    }
}

/// A row of 25 MiB, where an answer may have 20 MiB. A page has one row at least.
#[test]
fn row_beyond_the_maximum_is_not_made() {
    let client = costs::client();
    for selected in ["tx", "tx + ''"] {
        let items = vec![selected; 25].join(", ");
        let cost = client.cost(&format!("SELECT {items} FROM t WHERE k = 3 AND c = 0"));
        let error = cost.error.unwrap().to_string();
        assert!(error.contains("bytes of memory that one answer may have"), "{error}");
    }
    let cost = client.cost(&format!("SELECT {} FROM t WHERE k = 3", vec!["tx"; 19].join(", ")));
    assert!(cost.error.is_none() && cost.answer_bytes >= 19 << 20, "{:?}", cost.error);
}

/// Decoded, the elements of the list take 10 MiB.
#[test]
fn list_that_is_only_read_stays_encoded() {
    let client = costs::client();
    for selected in ["l", "writetime(l)", "maxwritetime(l)"] {
        let cost = client.cost(&format!("SELECT {selected} FROM t WHERE k = 2 AND c = 0"));
        assert!(cost.error.is_none(), "{:?}", cost.error);
        assert!(cost.held_bytes < 5 << 20, "{selected}: {} KiB", cost.held_bytes >> 10);
    }
}

/// A list of 100,000 elements takes 2.7 MiB as it is stored, and some 13 MiB while it is changed. One
/// that is changed leaves no memory for another; waiting ones hold none.
#[test]
fn long_rows_are_changed_in_turn() {
    let client = costs::client();
    let held =
        |sessions| client.held_at_a_time("UPDATE t SET l[0] = 7 WHERE k = 2 AND c = 0", sessions);
    let (one, many) = (held(1), held(16));
    assert!(many < 3 * one, "{} KiB by one, {} KiB by sixteen", one >> 10, many >> 10);
}

/// The rows of the nearest vectors lie in seven pages of 1 MiB.
#[test]
fn nearest_rows_keep_no_pages() {
    let client = costs::client();
    let select =
        "SELECT k, c FROM t WHERE k = 6 ORDER BY v ANN OF [1, 0, 0, 0] LIMIT 7 ALLOW FILTERING";
    let cost = client.cost(select);
    assert!(cost.error.is_none(), "{:?}", cost.error);
    let held = cost.held_bytes + cost.answer_bytes;
    assert!(held < 4 << 20, "{held} bytes");
}

/// Statements from the grammar. `CARNET_COSTS_SEEDS` sets the number of seeds.
#[test]
fn statements_of_the_grammar_are_bounded() {
    let count = std::env::var("CARNET_COSTS_SEEDS").map_or(2, |count| count.parse().unwrap());
    let client = RefCell::new(costs::client());
    let seeds = Cell::new(0);
    with_seeds(count, |rng: &mut SeededRng| {
        // What the statements store stays in memory.
        if seeds.replace(seeds.get() + 1) % SEEDS == SEEDS - 1 {
            **client.borrow_mut() = Client::new();
        }
        let client = client.borrow();
        for _ in 0..STATEMENTS {
            let text = statements::statement(rng);
            if statements::changes_rows(&text) && rng.chance(700) {
                client.inside_transaction(|client| check(client, &text));
            } else {
                check(&client, &text);
            }
        }
    });
}
