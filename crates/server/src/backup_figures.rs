//! Metrics of backups on `/metrics`.

use std::fmt::Write as _;

use carnet::BackupFigures;

/// Appends the figures of the backups that this process has taken.
#[expect(clippy::cast_precision_loss, reason = "figures of a monitor are floats")]
pub(crate) fn append(out: &mut String, figures: &BackupFigures) {
    let name = "carnet_backups_total";
    let _ = writeln!(
        out,
        "# HELP {name} Backups that this process has ended, by outcome.\n# TYPE {name} counter\n\
         {name}{{outcome=\"taken\"}} {}\n{name}{{outcome=\"failed\"}} {}",
        figures.taken, figures.failed
    );
    let last = figures.last;
    let at = last.map_or(0.0, |last| last.at.millis() as f64 / 1e3);
    for (name, help, value) in [
        ("running", "Backups that run.", figures.running as f64),
        (
            "last_timestamp_seconds",
            "Time of the last backup that this process has taken, in seconds since 1970; 0 before.",
            at,
        ),
        (
            "last_commit",
            "Last commit in that backup.",
            last.map_or(0.0, |last| last.commit.get() as f64),
        ),
        (
            "last_bytes",
            "Bytes of the files of that backup.",
            last.map_or(0.0, |last| last.bytes as f64),
        ),
    ] {
        let name = format!("carnet_backup_{name}");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    }
}

#[cfg(test)]
mod tests {
    use carnet::{LastBackup, Timestamp};
    use carnet_base::WallTime;

    use super::*;

    #[test]
    fn last_backup_has_its_time_and_commit() {
        let mut out = String::new();
        append(&mut out, &BackupFigures::default());
        assert!(out.contains("\ncarnet_backup_last_timestamp_seconds 0\n"), "{out}");
        let commit = Timestamp::new(77).unwrap();
        let last = LastBackup { at: WallTime(1_790_000_000_500_000), commit, bytes: 9 };
        let figures = BackupFigures { running: 1, taken: 2, failed: 3, last: Some(last) };
        out.clear();
        append(&mut out, &figures);
        for line in [
            "carnet_backups_total{outcome=\"taken\"} 2",
            "carnet_backups_total{outcome=\"failed\"} 3",
            "carnet_backup_running 1",
            "carnet_backup_last_timestamp_seconds 1790000000.5",
            "carnet_backup_last_commit 77",
            "carnet_backup_last_bytes 9",
        ] {
            assert!(out.contains(&format!("\n{line}\n")), "{line} in {out}");
        }
    }
}
