//! Failures of the builds of indexes and views.

use carnet_base::Error;
use serde::{Deserialize, Serialize};

/// Maximum length of a text in a failure.
const TEXT_BYTES_MAX: usize = 1_000;

/// Why an index or view cannot be built. It stays so until it is dropped or its table is truncated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFailure {
    /// Text of the error.
    pub reason: String,
    /// Key of the row at which the build failed, as in `k = 1 AND c = 'a'`; empty if it is no row.
    pub row: String,
}

impl BuildFailure {
    /// Makes the failure of a build by an error at a row.
    #[must_use]
    pub(crate) fn new(error: &Error, row: &str) -> Self {
        Self { reason: cut(error.message()), row: cut(row) }
    }

    /// Returns the text of the failure with its row.
    #[must_use]
    pub fn text(&self) -> String {
        if self.row.is_empty() {
            return self.reason.clone();
        }
        format!("{}, in the row {}", self.reason, self.row)
    }
}

/// Cuts a text to the length that the catalog keeps.
fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let rest = if end < text.len() { "…" } else { "" };
    format!("{}{rest}", &text[..end])
}
