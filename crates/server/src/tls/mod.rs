//! TLS of the ports: certificates in files, their reload, and handshakes.
//!
//! ```text
//!   files ──▶ Configs: one for drivers, one for monitors ◀── Tls, which loads them again on a change
//!                          │
//!   accepted socket ▶ first byte ▶ place ▶ ClientHello ▶ signature on a thread beside ▶ Finished
//! ```
//!
//! **Versions.** TLS 1.2 and 1.3, with the suites of rustls' provider `aws-lc-rs`. Sessions are not
//! resumed: the connections of drivers last long, and a resumed session would skip the check of
//! the client's certificate.
//!
//! **A handshake costs other clients little.** It has a place while it lasts: `Handshakes`
//! bounds their number in all and per address, and further clients wait within the deadline of
//! their log-in. A client that waits in the middle of a handshake holds no thread. The server's
//! signature, the expensive part, is made on a blocking thread, and few are made at a time.
//!
//! **Certificates change without a restart.** [`Tls::reload_if_changed`] compares the files'
//! times and sizes, and [`Tls::reload`] loads them in any case. Later handshakes use the new
//! ones; files that cannot be used leave the old ones in use. Open connections stay as they are.

mod certificates;
mod files;
mod handshake;
mod identities;

pub use certificates::Tls;
pub use files::{ClientCertificates, TlsFiles};
pub(crate) use handshake::{HANDSHAKE_RECORD, HandshakeFailure, Handshakes};
pub(crate) use identities::identities;

#[cfg(test)]
pub(crate) mod tests;
