//! The dashboard's files, which are part of the binary (`crates/server/dashboard`).

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

use super::answer::{Answer, with_body};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file with its path and type.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $content_type:expr, $file:literal) => {
        Asset {
            path: $path,
            content_type: $content_type,
            bytes: include_bytes!(concat!("../../dashboard/", $file)),
        }
    };
}

const ASSETS: &[Asset] = &[
    asset!("/", HTML, "index.html"),
    asset!("/assets/style.css", STYLE, "style.css"),
    asset!("/assets/icon.svg", SVG, "icon.svg"),
    asset!("/assets/main.js", SCRIPT, "main.js"),
    asset!("/assets/api.js", SCRIPT, "api.js"),
    asset!("/assets/format.js", SCRIPT, "format.js"),
    asset!("/assets/metrics.js", SCRIPT, "metrics.js"),
    asset!("/assets/parts.js", SCRIPT, "parts.js"),
    asset!("/assets/plot.js", SCRIPT, "plot.js"),
    asset!("/assets/theme.js", SCRIPT, "theme.js"),
    asset!("/assets/overview.js", SCRIPT, "pages/overview.js"),
    asset!("/assets/activity.js", SCRIPT, "pages/activity.js"),
    asset!("/assets/statements.js", SCRIPT, "pages/statements.js"),
    asset!("/assets/levels.js", SCRIPT, "pages/levels.js"),
    asset!("/assets/tables.js", SCRIPT, "pages/tables.js"),
    asset!("/assets/storage.js", SCRIPT, "pages/storage.js"),
    asset!("/assets/cluster.js", SCRIPT, "pages/cluster.js"),
    asset!("/assets/backups.js", SCRIPT, "pages/backups.js"),
    asset!("/assets/settings.js", SCRIPT, "pages/settings.js"),
    asset!("/assets/console.js", SCRIPT, "pages/console.js"),
    asset!("/assets/preact.mjs", SCRIPT, "vendor/preact.mjs"),
    asset!("/assets/uplot.js", SCRIPT, "vendor/uPlot.iife.min.js"),
    asset!("/assets/uplot.css", STYLE, "vendor/uPlot.min.css"),
    asset!("/assets/LICENSES.txt", "text/plain; charset=utf-8", "vendor/LICENSES.txt"),
];

/// Hashes of the files: a browser asks whether its copy is the same.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| {
        let hash = Sha256::digest(asset.bytes);
        let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{digits}\"")
    };
    ASSETS.iter().map(tag).collect()
});

/// Finds the file of a path.
pub(super) fn find(path: &str, headers: &HeaderMap) -> Option<Answer> {
    let place = ASSETS.iter().position(|asset| asset.path == path)?;
    let (asset, tag) = (&ASSETS[place], &TAGS[place]);
    let is_same = headers.get(IF_NONE_MATCH).is_some_and(|held| held.as_bytes() == tag.as_bytes());
    let (status, bytes) =
        if is_same { (StatusCode::NOT_MODIFIED, &[][..]) } else { (StatusCode::OK, asset.bytes) };
    let mut answer = with_body(status, asset.content_type, Bytes::from_static(bytes));
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboard");
        let count = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
            entries.filter(|entry| entry.file_type().unwrap().is_file()).count()
        };
        let files: usize =
            ["", "pages", "vendor"].iter().map(|part| count(&folder.join(part))).sum();
        assert_eq!(files, ASSETS.len());
    }

    #[test]
    fn unchanged_file_is_not_sent_again() {
        let first = find("/", &HeaderMap::new()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(find("/", &headers).unwrap().status(), StatusCode::NOT_MODIFIED);
        assert_eq!(find("/assets/style.css", &headers).unwrap().status(), StatusCode::OK);
        assert!(find("/assets/../index.html", &headers).is_none());
    }

    /// The policy forbids inline scripts and styles, and files of other servers.
    #[test]
    fn page_has_nothing_inline() {
        let page = include_str!("../../dashboard/index.html");
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"));
        for script in page.split("<script").skip(1) {
            let (tag, rest) = script.split_once('>').unwrap();
            assert!(tag.contains(" src=\"/assets/") && rest.starts_with("</script>"), "{script}");
        }
        for asset in ASSETS.iter().filter(|asset| !asset.path.contains("uplot")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let is_link = text.contains("src=\"http") || text.contains("from 'http");
            assert!(!is_link, "{}", asset.path);
        }
    }
}
