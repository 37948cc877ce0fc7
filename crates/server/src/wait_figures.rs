//! Metrics of statements' waits, on `/metrics`.

use std::fmt::Write as _;
use std::sync::Arc;

use carnet_admission::diagnosis::{Totals, Why};

/// Appends the waits of each level by reason, and the wasted processor time.
pub(crate) fn append(out: &mut String, totals: &[(Arc<str>, Totals)]) {
    let _ = writeln!(
        out,
        "# HELP carnet_wait_seconds_total Time that statements waited, by level and reason.\n\
         # TYPE carnet_wait_seconds_total counter"
    );
    for (level, totals) in totals {
        for why in Why::ALL {
            let (waited, why) = (totals.waited[why as usize].as_secs_f64(), why.name());
            let labels = format!("{{level=\"{level}\",why=\"{why}\"}}");
            let _ = writeln!(out, "carnet_wait_seconds_total{labels} {waited}");
        }
    }
    let _ = writeln!(
        out,
        "# HELP carnet_wasted_seconds_total Processor time of statements that timed out or whose \
         client had gone.\n\
         # TYPE carnet_wasted_seconds_total counter"
    );
    for (level, totals) in totals {
        let wasted = totals.wasted.as_secs_f64();
        let _ = writeln!(out, "carnet_wasted_seconds_total{{level=\"{level}\"}} {wasted}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_name_level_and_reason() {
        let mut totals = Totals { wasted: Duration::from_millis(250), ..Totals::default() };
        totals.waited[Why::Lock as usize] = Duration::from_millis(1500);
        let mut out = String::new();
        append(&mut out, &[("gold".into(), totals)]);
        for line in [
            "# TYPE carnet_wait_seconds_total counter\n",
            "\ncarnet_wait_seconds_total{level=\"gold\",why=\"lock\"} 1.5\n",
            "\ncarnet_wait_seconds_total{level=\"gold\",why=\"gate\"} 0\n",
            "\ncarnet_wasted_seconds_total{level=\"gold\"} 0.25\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
    }
}
