//! Memory that the system gives the process: that of its container, or of the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups of version 2 are mounted, and the memory controller of version 1.
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUPS_V1: &str = "/sys/fs/cgroup/memory";

/// Returns the bytes of memory that this process may use, `None` if the system does not say.
pub(crate) fn system_memory_bytes() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine_bytes(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| limit_bytes(&file));
    limits.chain(machine).min()
}

/// Returns the machine's memory in bytes, from `/proc/meminfo`.
fn machine_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Returns the files that may hold limits for the groups of `/proc/self/cgroup`: the group's own
/// and those of enclosing groups, which apply as well. In a container the group is the root of the
/// mount.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        // hierarchy:controllers:path; version 2 has hierarchy 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" if hierarchy == "0" => (CGROUPS, "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (CGROUPS_V1, "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let around = Path::new(path.trim_start_matches('/')).ancestors();
        files.extend(around.map(|group| Path::new(root).join(group).join(name)));
    }
    files
}

fn limit_bytes(file: &Path) -> Option<usize> {
    // Version 2 has "max" for no limit, version 1 a number larger than any machine.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_machine_is_read() {
        assert_eq!(
            machine_bytes("MemTotal:       24117248 kB\nMemFree: 1 kB\n"),
            Some(24_117_248 << 10)
        );
        assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
        assert!(system_memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn limits_of_enclosing_groups_count() {
        let files = limit_files("0::/system.slice/carnet.service\n");
        let want = ["system.slice/carnet.service/", "system.slice/", ""];
        assert_eq!(files, want.map(|group| PathBuf::from(format!("{CGROUPS}/{group}memory.max"))));
        let files = limit_files("5:cpu,cpuacct:/a\n4:memory:/docker/1\n1:name=systemd:/b\n");
        let want = ["docker/1/", "docker/", ""];
        let limit = |group| PathBuf::from(format!("{CGROUPS_V1}/{group}memory.limit_in_bytes"));
        assert_eq!(files, want.map(limit));
        assert_eq!(limit_files("odd\n\n0:x"), Vec::<PathBuf>::new());
    }
}
