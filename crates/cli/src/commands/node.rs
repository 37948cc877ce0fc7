//! What this process tells drivers about itself.

use std::path::Path;

use carnet::Uuid;
use carnet::base::murmur3;

/// Names the node for good: the same at every start on the same directory, so that drivers know it
/// again, and without anything to store.
pub(crate) fn host_id(directory: &Path) -> Uuid {
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let hash = |salt: &[u8]| {
        let bytes = [salt, path.as_os_str().as_encoded_bytes()].concat();
        murmur3::token(&bytes).0.to_be_bytes()
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&hash(b"carnet"));
    bytes[8..].copy_from_slice(&hash(b"ticket"));
    // Version 8 of RFC 9562: the content is the maker's own.
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_node_by_any_path() {
        let directory = tempfile::tempdir().unwrap();
        let id = host_id(directory.path());
        assert_eq!(host_id(&directory.path().join(".")), id);
        assert_eq!(id.get_version_num(), 8);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(host_id(other.path()), id);
    }
}
