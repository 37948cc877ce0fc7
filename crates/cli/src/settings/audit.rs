//! Settings of the audit log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use carnet_cql::AuditCategory;
use carnet_server::{Destination, Filter};

use super::units::{bytes, count};

/// Value of `audit.log` for the server's own log.
const SERVER_LOG: &str = "server";
/// Default of `audit.file_size`, in bytes.
const FILE_BYTES: usize = 64 << 20;
/// Default of `audit.files`.
const FILES: usize = 8;

/// Settings of the audit log that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    log: Option<Log>,
    filter: Filter,
    file_bytes: Option<usize>,
    files: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Log {
    Server,
    File(PathBuf),
}

impl Audit {
    pub(super) fn take(&mut self, name: &str, text: &str, folder: &Path) -> Result<(), String> {
        match name {
            "log" if text == SERVER_LOG => self.log = Some(Log::Server),
            "log" => self.log = Some(Log::File(folder.join(text))),
            "categories" => self.filter.categories = categories(text)?,
            "include_users" => self.filter.include_users = names(text),
            "exclude_users" => self.filter.exclude_users = names(text),
            "include_keyspaces" => self.filter.include_keyspaces = names(text),
            "exclude_keyspaces" => self.filter.exclude_keyspaces = names(text),
            "file_size" => self.file_bytes = Some(bytes(text)?),
            "files" => self.files = Some(count(text)?),
            name => unreachable!("audit.{name} is known and not taken"),
        }
        Ok(())
    }

    /// Returns where the log goes, and its entries; `None` if there is none.
    pub(crate) fn log(&self) -> Option<(Destination, Filter)> {
        let destination = match self.log.clone()? {
            Log::Server => Destination::Log,
            Log::File(path) => Destination::File {
                path,
                len_max: self.file_bytes.unwrap_or(FILE_BYTES) as u64,
                files_max: self.files.unwrap_or(FILES),
            },
        };
        Some((destination, self.filter.clone()))
    }
}

/// Parses names that are separated by commas.
pub(super) fn names(text: &str) -> BTreeSet<String> {
    let names = text.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn categories(text: &str) -> Result<BTreeSet<AuditCategory>, String> {
    let find = |name: String| {
        let known = AuditCategory::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| {
            let all: Vec<_> = AuditCategory::ALL.into_iter().map(AuditCategory::name).collect();
            format!("there is no category {name:?}; the categories are {}", all.join(", "))
        })
    };
    names(text).into_iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(settings: &[(&str, &str)]) -> Result<Audit, String> {
        let mut audit = Audit::default();
        for (name, text) in settings {
            audit.take(name, text, Path::new("etc"))?;
        }
        Ok(audit)
    }

    #[test]
    fn log_is_a_file_or_that_of_the_server() {
        assert_eq!(Audit::default().log(), None);
        let file = taken(&[("log", "audit.log"), ("files", "3"), ("categories", "login, dml")]);
        let (destination, filter) = file.unwrap().log().unwrap();
        let path = "etc/audit.log".into();
        assert_eq!(destination, Destination::File { path, len_max: 64 << 20, files_max: 3 });
        assert_eq!(filter.categories, [AuditCategory::Login, AuditCategory::Dml].into());
        let server = taken(&[("log", "server"), ("exclude_users", "monitor, x")]).unwrap();
        let (destination, filter) = server.log().unwrap();
        assert_eq!(destination, Destination::Log);
        assert_eq!(filter.exclude_users, ["monitor".to_owned(), "x".to_owned()].into());
        let unknown = taken(&[("categories", "ddl, reads")]).unwrap_err();
        assert!(
            unknown.contains("no category \"reads\"; the categories are login, ddl"),
            "{unknown}"
        );
    }
}
