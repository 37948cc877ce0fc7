//! Metrics of refused statements, on `/metrics`.

use std::fmt::Write as _;

use carnet_admission::{Admission, Class};

use crate::metrics::{Metrics, label_value};

const NAME: &str = "carnet_shed_total";

/// Appends the refused statements by class, level and reason. A request that was refused unread has
/// neither class nor level.
pub(crate) fn append(out: &mut String, metrics: &Metrics, admission: Option<&Admission>) {
    let _ = writeln!(
        out,
        "# HELP {NAME} Statements that were refused, by level and reason.\n# TYPE {NAME} counter"
    );
    for class in admission.into_iter().flat_map(|_| Class::ALL) {
        let levels = admission.map(|admission| admission.figures_of_levels(class));
        for (level, figures) in levels.into_iter().flatten() {
            let (class, level) = (class.name(), label_value(&level));
            for (why, count) in [
                ("overloaded", figures.shed_overloaded),
                ("deadline", figures.shed_deadline),
                ("answer_memory", figures.shed_memory),
            ] {
                let labels = format!("class=\"{class}\",level=\"{level}\",why=\"{why}\"");
                let _ = writeln!(out, "{NAME}{{{labels}}} {count}");
            }
        }
    }
    for (why, counter) in [
        ("answer_memory", &metrics.requests_shed_by_answers),
        ("request_memory", &metrics.requests_shed),
    ] {
        let _ = writeln!(out, "{NAME}{{why=\"{why}\"}} {}", counter.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_refused_unread_have_no_level() {
        let metrics = Metrics::default();
        metrics.requests_shed.add(3);
        let mut out = String::new();
        append(&mut out, &metrics, None);
        assert!(out.contains("# TYPE carnet_shed_total counter\n"), "{out}");
        assert!(out.contains("\ncarnet_shed_total{why=\"request_memory\"} 3\n"), "{out}");
        assert!(out.contains("\ncarnet_shed_total{why=\"answer_memory\"} 0\n"), "{out}");
    }
}
