//! Statements from hostile text. What is understood is written so that it is understood alike.
#![no_main]

use carnet_cql::{Limits, parse, split};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for piece in split(text) {
        if let Ok(parsed) = parse(piece.text, &Limits::default()) {
            let canonical = parsed.statement.to_string();
            let again = parse(&canonical, &Limits::default()).expect("what is written is read");
            assert_eq!(again.statement, parsed.statement);
        }
    }
});
