//! Settings of `carnet serve`: from a file and from the command line, which overrides the file.
//!
//! ```text
//!   known    every setting with its description; source of the template and of errors
//!   memory   division of the server's memory among its parts
//!   file     TOML to settings, each with its line; an unknown one is refused
//! ```
//!
//! Paths in a file are relative to the file.

mod audit;
mod effective;
mod examples;
mod file;
mod given;
mod io;
mod known;
mod limits;
mod log;
mod memory;
mod tls;
mod units;

use std::net::SocketAddr;
use std::time::Duration;

use carnet::{Durability, Isolation};
use carnet_cql::Timestamps;

pub(crate) use effective::changed;
pub(crate) use given::{Http, Settings};
pub(crate) use known::template;
pub(crate) use log::{Log, LogFormat, default_levels, levels};
pub(crate) use memory::Memory;
pub(crate) use tls::{Tls, clients};

use units::{bytes, count, scaled};

/// Maximum interval between two syncs.
const SYNC_MILLIS_MAX: u64 = 3_600_000;

/// Maximum retention in days: ten years.
const RETENTION_DAYS_MAX: u64 = 3_652;

pub(crate) fn http(text: &str) -> Result<Http, String> {
    if text == "off" {
        return Ok(Http(None));
    }
    match text.parse() {
        Ok(address) => Ok(Http(Some(address))),
        Err(_) => Err("expected an address and port such as 127.0.0.1:9180, or off".into()),
    }
}

pub(crate) fn durability(text: &str) -> Result<Durability, String> {
    let millis = text.strip_prefix("interval:").and_then(|millis| millis.parse().ok());
    match (text, millis) {
        ("always", _) => Ok(Durability::Always),
        ("none", _) => Ok(Durability::None),
        ("memory", _) => Ok(Durability::Memory),
        (_, Some(millis @ 1..=SYNC_MILLIS_MAX)) => {
            Ok(Durability::Interval(Duration::from_millis(millis)))
        }
        (_, Some(1..)) => {
            Err(format!("expected an interval of at most {SYNC_MILLIS_MAX} milliseconds, one hour"))
        }
        _ => {
            Err("expected always, none, memory, or interval:MILLISECONDS such as interval:100"
                .into())
        }
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address and port such as 127.0.0.1:9042".into())
}

pub(crate) fn advertise(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if !address.ip().is_unspecified() && address.port() > 0 => Ok(address),
        _ => Err("expected one address that clients reach, such as 10.0.0.9:9042".into()),
    }
}

/// Parses the name of the data centre: it stands beside other keys in the replication of a keyspace.
pub(crate) fn data_center(text: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_name = !text.is_empty() && text.len() <= 48 && text.chars().all(is_letter);
    match text {
        "class" | "replication_factor" => Err(format!("{text} is a key of a keyspace's replication")),
        text if is_name => Ok(text.to_owned()),
        _ => Err("expected a name of at most 48 letters, digits, hyphens, underscores and points, such as \
                  datacenter1"
            .into()),
    }
}

fn isolation(text: &str) -> Result<Isolation, String> {
    match text {
        "strict-serializable" => Ok(Isolation::StrictSerializable),
        "serializable" => Ok(Isolation::Serializable),
        "snapshot" => Ok(Isolation::Snapshot),
        _ => Err("expected strict-serializable, serializable or snapshot".into()),
    }
}

/// Parses the treatment of `USING TIMESTAMP`.
pub(crate) fn timestamps(text: &str) -> Result<Timestamps, String> {
    match text {
        "refuse" => Ok(Timestamps::Refuse),
        "ignore" => Ok(Timestamps::Ignore),
        "record" => Ok(Timestamps::Record),
        _ => Err("expected refuse, ignore or record".into()),
    }
}

/// Parses a retention with its unit.
pub(crate) fn retention(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    match scaled(text, &units) {
        Some(seconds) if seconds <= RETENTION_DAYS_MAX * 86_400 => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(format!("expected a time of at most {RETENTION_DAYS_MAX}d, ten years")),
        None => Err("expected a time such as 30s, 10m or 2h".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_has_four_forms() {
        assert_eq!(durability("always"), Ok(Durability::Always));
        assert_eq!(durability("none"), Ok(Durability::None));
        assert_eq!(durability("memory"), Ok(Durability::Memory));
        let interval = Duration::from_millis(50);
        assert_eq!(durability("interval:50"), Ok(Durability::Interval(interval)));
        let error = durability("interval:3600001").unwrap_err();
        assert!(error.contains("at most 3600000 milliseconds"), "{error}");
        assert!(durability("interval:3600000").is_ok());
        for wrong in ["", "interval", "interval:", "interval:0", "interval:-1", "sometimes"] {
            assert!(durability(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn data_center_is_a_name() {
        for name in ["datacenter1", "DC1", "eu-west_1.a"] {
            assert_eq!(data_center(name), Ok(name.to_owned()));
        }
        let long = "d".repeat(49);
        for wrong in ["", "a b", "dc'1", "ü", &long, "class", "replication_factor"] {
            assert!(data_center(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn http_can_be_off() {
        assert_eq!(http("off").unwrap().0, None);
        assert_eq!(http("127.0.0.1:0").unwrap().0.unwrap().port(), 0);
        assert!(http("9180").is_err());
    }

    #[test]
    fn counts_are_positive_numbers() {
        assert_eq!(count("4096"), Ok(4096));
        for wrong in ["", "0", "-1", "many", "1.5", "99999999999999999999"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("4 GiB"), Ok(4 << 30));
        assert_eq!(retention("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(retention("0s"), Ok(Duration::ZERO));
        assert!(retention("3652d").is_ok());
        for absurd in ["3653d", "213503982334601d", "18446744073709551615s"] {
            assert!(retention(absurd).unwrap_err().contains("at most 3652d"), "{absurd}");
        }
        for wrong in ["", "5", "MiB", "0MiB", "5MB", "-1s", "99999999999999999999s", "5w"] {
            assert!(bytes(wrong).is_err() && retention(wrong).is_err(), "{wrong}");
        }
    }
}
