//! Names of the files of tables.

/// Returns the file name of a table.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("sst-{number:08}.sst")
}

/// Returns the number in a table's file name; `None` for other names.
#[must_use]
pub fn number_in(name: &str) -> Option<u64> {
    let number = name.strip_prefix("sst-")?.strip_suffix(".sst")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}
