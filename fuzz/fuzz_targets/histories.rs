//! Histories that somebody else wrote down: read or refused, judged, and written to be read again.
#![no_main]

use carnet_checker::format::{Format, write_edn};
use carnet_checker::{Options, check};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [Format::Edn, Format::Json] {
        let Ok(history) = format.read(text) else { continue };
        if let Ok(report) = check(&history, &Options::default()) {
            let _ = report.explain(&history);
        }
        let mut edn = Vec::new();
        write_edn(&history, &mut edn).expect("memory takes all");
        drop(edn);
    }
});
