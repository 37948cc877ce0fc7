//! Metrics of the process's memory and file descriptors, on `/metrics`.

use std::fmt::Write as _;
use std::fs;

use crate::descriptors::Descriptors;

/// Appends the limit of open files, and the resident memory and open files of the process, if the
/// system reports them (Linux).
pub(crate) fn append(out: &mut String) {
    let mut gauge = |name: &str, help: &str, value: u64| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    let limit = Descriptors::of_process().limit();
    gauge("carnet_process_open_files_max", "Limit of open files, connections included.", limit);
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge(
            "carnet_process_open_files",
            "Open files, connections included.",
            open.count() as u64,
        );
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = resident_bytes(&status) {
        let name = "carnet_process_resident_bytes";
        let _ = writeln!(
            out,
            "# HELP {name} Memory of the process that is in RAM.\n# TYPE {name} gauge\n{name} {bytes}"
        );
    }
}

/// Parses the resident set size in a process's status, which is in KiB.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_kib() {
        let status = "Name:\tcarnet\nVmPeak:\t 9 kB\nVmRSS:\t  123456 kB\nThreads:\t3\n";
        assert_eq!(resident_bytes(status), Some(123_456 << 10));
        for wrong in ["", "VmRSS:\t", "VmRSS:\t 12 MB", "VmRSS:\t -1 kB"] {
            assert_eq!(resident_bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn process_shows_its_resident_memory() {
        let mut out = String::new();
        append(&mut out);
        let value =
            out.lines().find_map(|line| line.strip_prefix("carnet_process_resident_bytes "));
        assert!(value.unwrap().parse::<u64>().unwrap() > 1 << 20, "{out}");
    }
}
