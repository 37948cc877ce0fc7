//! Metrics of the process and the program, on `/metrics`, by the names that Prometheus' clients use.

use std::fmt::Write as _;
use std::fs;

use rustix::param::clock_ticks_per_second;

use crate::descriptors::Descriptors;

/// Appends the version of the program, the limit of open files, and the memory, processor time, threads,
/// start and open files of the process, if the system reports them (Linux).
pub(crate) fn append(out: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    append_one(
        out,
        ("carnet_build_info", "gauge", "Always 1; the label has the version."),
        &format!("{{version=\"{version}\"}} 1"),
    );
    let mut gauge = |name: &str, help: &str, value: u64| {
        append_one(out, (name, "gauge", help), &format!(" {value}"));
    };
    let limit = Descriptors::of_process().limit();
    gauge("process_max_fds", "Limit of open files, connections included.", limit);
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge("process_open_fds", "Open files, connections included.", open.count() as u64);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (key, name, help) in [
        ("VmRSS:", "process_resident_memory_bytes", "Memory of the process that is in RAM."),
        ("VmSize:", "process_virtual_memory_bytes", "Address space of the process."),
    ] {
        if let Some(bytes) = kib(&status, key) {
            gauge(name, help, bytes);
        }
    }
    if let Some(threads) = number(&status, "Threads:") {
        gauge("process_threads", "Threads of the process.", threads);
    }
    append_times(out);
}

fn append_times(out: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let system = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(Times { processor, started }) = Times::parse(&stat) else { return };
    let seconds = |ticks: u64| Hundredths(ticks.saturating_mul(100) / clock_ticks_per_second());
    let about = "Processor time of the process, in user and system mode.";
    append_one(
        out,
        ("process_cpu_seconds_total", "counter", about),
        &format!(" {}", seconds(processor)),
    );
    if let Some(boot) = number(&system, "btime ") {
        let Hundredths(since_boot) = seconds(started);
        let started = Hundredths(boot.saturating_mul(100).saturating_add(since_boot));
        let about = "Start of the process, in seconds since 1970.";
        append_one(out, ("process_start_time_seconds", "gauge", about), &format!(" {started}"));
    }
}

fn append_one(out: &mut String, (name, kind, help): (&str, &str, &str), value: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{value}");
}

/// Hundredths of a second, written in seconds.
struct Hundredths(u64);

impl std::fmt::Display for Hundredths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Times of a process, in ticks of the clock.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    /// In user and system mode together.
    processor: u64,
    /// Since the system's boot.
    started: u64,
}

impl Times {
    /// Parses `/proc/self/stat`. Source: `proc_pid_stat(5)`, fields 14, 15 and 22.
    fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses. It may have spaces.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { processor: field(14)?.checked_add(field(15)?)?, started: field(22)? })
    }
}

/// Finds a number behind a key at the beginning of a line.
fn number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().parse().ok()
}

/// Finds a size in KiB behind a key at the beginning of a line, and returns it in bytes.
fn kib(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_kib() {
        let status = "Name:\tcarnet\nVmPeak:\t 9 kB\nVmRSS:\t  123456 kB\nThreads:\t3\n";
        assert_eq!(kib(status, "VmRSS:"), Some(123_456 << 10));
        assert_eq!(number(status, "Threads:"), Some(3));
        for wrong in ["", "VmRSS:\t", "VmRSS:\t 12 MB", "VmRSS:\t -1 kB"] {
            assert_eq!(kib(wrong, "VmRSS:"), None, "{wrong:?}");
        }
    }

    #[test]
    fn times_are_read_behind_the_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 900 0 3 0 250 50 0 0 20 0 9 0 12345 1 2";
        assert_eq!(Times::parse(stat), Some(Times { processor: 300, started: 12_345 }));
        for wrong in ["", "7 (a", "7 (a) S 1", &stat.replace("250", "x")] {
            assert_eq!(Times::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(Hundredths(1_205).to_string(), "12.05");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn process_shows_itself() {
        let mut out = String::new();
        append(&mut out);
        let value = |name: &str| -> f64 {
            let line = out.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {out}")).trim().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_threads ") >= 1.0);
        assert!(value("process_start_time_seconds ") > 1.6e9);
        assert!(value("process_cpu_seconds_total ") < 1e6);
        assert!(out.contains("\ncarnet_build_info{version=\""), "{out}");
    }
}
