//! Metrics of the I/O scheduler on `/metrics`.

use std::fmt::Write as _;

use carnet::{IoClass, IoTotals};

type Figure = fn(&IoTotals) -> f64;

/// Appends the totals of each I/O class.
#[expect(clippy::cast_precision_loss, reason = "figures of a monitor are floats")]
pub(crate) fn append(out: &mut String, totals: &[IoTotals; IoClass::KINDS]) {
    let figures: [(&str, &str, &str, Figure); 5] = [
        ("queued", "gauge", "Requests that wait for their turn at the disk.", |of| {
            of.queued as f64
        }),
        ("dispatched_total", "counter", "Requests that the disk got.", |of| of.dispatched as f64),
        ("bytes_total", "counter", "Bytes of requests that the disk got.", |of| of.bytes as f64),
        ("wait_seconds_total", "counter", "Time that requests waited for their turn.", |of| {
            of.waited.as_secs_f64()
        }),
        ("device_seconds_total", "counter", "Time that requests were in the device.", |of| {
            of.in_device.as_secs_f64()
        }),
    ];
    for (name, kind, help, figure) in figures {
        let _ = writeln!(out, "# HELP carnet_io_{name} {help}\n# TYPE carnet_io_{name} {kind}");
        for (class, totals) in IoClass::NAMES.iter().zip(totals) {
            let _ = writeln!(out, "carnet_io_{name}{{class=\"{class}\"}} {}", figure(totals));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_name_their_class() {
        let mut totals = [IoTotals::default(); IoClass::KINDS];
        totals[IoClass::Flush.kind()].bytes = 7;
        totals[IoClass::Compaction.kind()].queued = 3;
        totals[IoClass::Wal.kind()].in_device = Duration::from_millis(1500);
        let mut out = String::new();
        append(&mut out, &totals);
        for line in [
            "# TYPE carnet_io_bytes_total counter\n",
            "\ncarnet_io_bytes_total{class=\"flush\"} 7\n",
            "\ncarnet_io_bytes_total{class=\"compaction\"} 0\n",
            "\ncarnet_io_device_seconds_total{class=\"wal\"} 1.5\n",
            "\ncarnet_io_queued{class=\"compaction\"} 3\n",
            "\ncarnet_io_queued{class=\"maintenance\"} 0\n",
        ] {
            assert!(out.contains(line), "{line} in {out}");
        }
    }
}
