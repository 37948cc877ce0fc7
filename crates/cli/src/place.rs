//! Location of a database: a directory or a cluster.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use carnet::cluster::{ClusterUrl, Peers};
use carnet::{Builder, Db, Uuid, block_on};
use carnet_base::murmur3;

/// Location of a database.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Directory(PathBuf),
    Cluster(Box<ClusterUrl>),
}

impl Place {
    /// Returns the location from the command line's options. The URL is passed as text: the parser
    /// of command lines would show it in its errors, with the password.
    pub(crate) fn from_options(
        directory: Option<PathBuf>,
        store: Option<&str>,
    ) -> Result<Option<Self>> {
        store.map_or(Ok(()), refuse_secret)?;
        Self::from_settings(directory, store)
    }

    /// Returns the location from settings. Their file may have secrets.
    pub(crate) fn from_settings(
        directory: Option<PathBuf>,
        store: Option<&str>,
    ) -> Result<Option<Self>> {
        Ok(match store {
            Some(url) => Some(Self::Cluster(Box::new(ClusterUrl::parse(url)?))),
            None => directory.map(Self::Directory),
        })
    }

    /// Opens the database.
    pub(crate) fn open(&self, builder: Builder) -> Result<Db> {
        Ok(match self {
            Self::Directory(path) => builder.open(path)?,
            Self::Cluster(url) => block_on(Box::pin(builder.open_url(url)))?,
        })
    }

    /// Returns the directory, for operations on its files.
    pub(crate) fn directory(&self) -> Result<&Path> {
        match self {
            Self::Directory(path) => Ok(path),
            Self::Cluster(url) => bail!("{url} has no directory"),
        }
    }

    /// Returns the settings by which other processes of the database reach this one, if they do.
    pub(crate) fn peers(&self) -> Option<&Peers> {
        match self {
            Self::Directory(_) => None,
            Self::Cluster(url) => url.peers.as_ref(),
        }
    }

    /// Returns a permanent id of the node, derived from its location: drivers recognize the node
    /// after a restart, and nothing is stored. On a cluster the addresses that drivers connect to
    /// distinguish the nodes.
    pub(crate) fn host_id(&self, address: &str) -> Uuid {
        match self {
            Self::Directory(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                host_id(path.as_os_str().as_encoded_bytes())
            }
            Self::Cluster(url) => host_id(format!("{url} at {address}").as_bytes()),
        }
    }
}

fn host_id(name: &[u8]) -> Uuid {
    let hash = |salt: &[u8]| murmur3::token(&[salt, name].concat()).0.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&hash(b"carnet"));
    bytes[8..].copy_from_slice(&hash(b"ticket"));
    // Version 8 of RFC 9562: the content is application-defined.
    bytes[6] = 0x80 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid::from_bytes(bytes)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Cluster(url) => url.fmt(f),
        }
    }
}

/// Refuses a URL on the command line that has a secret.
pub(crate) fn refuse_secret(url: &str) -> Result<()> {
    if ClusterUrl::has_secret(url) {
        bail!(
            "the URL has a password or a secret, and every user of this machine can read command \
             lines: name a file with it, by the options password_file and secret_file of the URL"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_has_one_node_id_for_any_path() {
        let directory = tempfile::tempdir().unwrap();
        let id = |path: &Path| Place::Directory(path.to_path_buf()).host_id("");
        assert_eq!(id(&directory.path().join(".")), id(directory.path()));
        assert_eq!(id(directory.path()).get_version_num(), 8);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(id(other.path()), id(directory.path()));
    }

    #[test]
    fn nodes_of_a_cluster_have_distinct_ids() {
        let of = |url: &str| Place::from_options(None, Some(url)).unwrap().unwrap();
        let place = of("cassandra://ann@h/ks?password_file=f");
        assert_eq!(place.to_string(), "cassandra://h/ks");
        assert_ne!(place.host_id("127.0.0.1:1"), place.host_id("127.0.0.1:2"));
        assert_ne!(place.host_id("a:1"), of("cassandra://h/ks2").host_id("a:1"));
        assert!(place.directory().is_err());
    }
}
