//! Addresses as stored in the lease: `host:port/incarnation`.
//!
//! The incarnation is drawn when the port is opened. A restarted process, or one of another
//! database, has another incarnation, so it is never taken for the process in the lease.

use std::net::SocketAddr;

use carnet_base::{Error, Result};

use super::handshake::Incarnation;
use super::refusal::Refusal;
use crate::lease::Address;

/// A parsed address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reached<'a> {
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) incarnation: Incarnation,
}

impl<'a> Reached<'a> {
    pub(super) fn parse(address: &'a Address) -> Result<Self, Refusal> {
        let parse = || {
            let (place, incarnation) = address.as_str().split_once('/')?;
            let (host, port) = split(place)?;
            let is_hex = incarnation.len() == 16 && !incarnation.contains('+');
            let incarnation = u64::from_str_radix(incarnation, 16).ok().filter(|_| is_hex)?;
            Some(Self { host, port, incarnation: incarnation.to_be_bytes() })
        };
        parse().ok_or(Refusal::NoAddress)
    }
}

/// Splits `host:port`; the host loses the brackets of an IPv6 address.
fn split(place: &str) -> Option<(&str, u16)> {
    let (host, port) = place.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    if host.is_empty() {
        return None;
    }
    Some((host, port.parse().ok()?))
}

/// Creates the address of a process that listens on `listen`. `advertise` is the host and port by
/// which others reach it; port 0 stands for the port it listens on.
pub(super) fn advertised(
    listen: SocketAddr,
    advertise: Option<String>,
    incarnation: Incarnation,
) -> Result<Address> {
    let place = match advertise {
        None if listen.ip().is_unspecified() => {
            return Err(Error::invalid(format!(
                "a process that listens on {listen} needs an advertised host and port by which \
                 the others reach it"
            )));
        }
        None => listen.to_string(),
        Some(place) => match split(&place).filter(|_| !place.contains('/')) {
            Some((_, 0)) => match place.rsplit_once(':') {
                Some((host, _)) => format!("{host}:{}", listen.port()),
                None => place,
            },
            Some(_) => place,
            None => {
                return Err(Error::invalid(format!(
                    "{place:?} is not a host:port by which others can reach this process"
                )));
            }
        },
    };
    Address::new(format!("{place}/{:016x}", u64::from_be_bytes(incarnation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_host_port_and_incarnation() {
        let incarnation = [0, 0, 0, 0, 0, 0, 0xab, 0x07];
        let at = |listen: &str, advertise: Option<&str>| {
            advertised(listen.parse().unwrap(), advertise.map(str::to_owned), incarnation)
        };
        for (listen, advertise, address, host, port) in [
            ("10.0.0.1:7000", None, "10.0.0.1:7000", "10.0.0.1", 7000),
            ("[::1]:7000", None, "[::1]:7000", "::1", 7000),
            ("0.0.0.0:7000", Some("db-1.example:7001"), "db-1.example:7001", "db-1.example", 7001),
            ("0.0.0.0:7000", Some("db-1:0"), "db-1:7000", "db-1", 7000),
        ] {
            let made = at(listen, advertise).unwrap();
            assert_eq!(made.as_str(), format!("{address}/000000000000ab07"));
            assert_eq!(Reached::parse(&made).unwrap(), Reached { host, port, incarnation });
        }
        assert!(at("0.0.0.0:7000", None).is_err(), "an unspecified address cannot be called");
        for wrong in ["", "host", ":1", "a:b", "::1:7000", "h:70000", "h:1/2", "[::1:7000"] {
            assert!(at("0.0.0.0:7000", Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn malformed_address_is_rejected() {
        for wrong in
            ["", "first", "h:1", "h:1/", "h:1/12", "h:1/+00000000000ab07", "h/0000000000000000"]
        {
            assert!(Reached::parse(&Address::new(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
