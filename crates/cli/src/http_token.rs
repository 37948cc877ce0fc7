//! The token for the HTTP port, in a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use carnet_server::HttpToken;

/// Reads a token.
///
/// # Errors
///
/// The file cannot be read, or its token is weak.
pub(crate) fn read(path: &Path) -> Result<HttpToken> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the token for HTTP in {shown}"))?;
    HttpToken::new(&text).with_context(|| shown.to_string())
}
