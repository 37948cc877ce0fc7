//! Effective values of all settings, as texts without secrets.

use std::path::PathBuf;

use carnet::Durability;
use carnet_server::ClientCertificates;

use super::known::{SETTINGS, Setting};
use super::memory::Memory;
use super::{Http, Settings};
use crate::place::Place;

impl Settings {
    /// Returns the names of all settings, as `section.name`, and their values: given, by default, or as
    /// divided from the memory. A value is empty if there is none.
    pub(crate) fn effective(&self, memory: &Memory, place: &Place) -> Vec<(String, String)> {
        let value = |name: &str, default: &str| {
            let text = || self.texts.get(name).map_or(default, String::as_str).to_owned();
            self.of_place(name, place)
                .or_else(|| self.of_memory(name, memory))
                .or_else(|| self.of_command_line(name))
                .unwrap_or_else(text)
        };
        let named = SETTINGS.iter().map(|known| {
            let name = format!("{}.{}", known.section, known.name);
            let value = value(&name, known.default);
            (name, value)
        });
        named.collect()
    }

    fn of_place(&self, name: &str, place: &Place) -> Option<String> {
        match (name, place) {
            ("database.directory", Place::Directory(path)) => Some(path.display().to_string()),
            // The URL is shown without its password and secret.
            ("cluster.url", Place::Cluster(url)) => Some(url.to_string()),
            (
                "database.directory" | "database.durability" | "database.memory",
                Place::Cluster(_),
            )
            | ("cluster.url", Place::Directory(_)) => Some(String::new()),
            _ => None,
        }
    }

    fn of_memory(&self, name: &str, memory: &Memory) -> Option<String> {
        let bytes = match name {
            "server.memory" => memory.server,
            "server.request_memory" => memory.requests,
            "server.answer_memory" => memory.answers,
            "server.prepared_memory" => memory.prepared,
            "database.memory" => memory.engine,
            "database.transaction_memory" => memory.transactions,
            _ => return None,
        };
        Some(if bytes % (1 << 20) == 0 {
            format!("{}MiB", bytes >> 20)
        } else if bytes % (1 << 10) == 0 {
            format!("{}KiB", bytes >> 10)
        } else {
            bytes.to_string()
        })
    }

    /// Returns the value of a setting that an option may have replaced.
    fn of_command_line(&self, name: &str) -> Option<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        match name {
            "server.listen" => self.listen.map(|address| address.to_string()),
            "server.advertise" => self.advertise.map(|address| address.to_string()),
            "server.http" => self.http.map(|Http(address)| {
                address.map_or("off".to_owned(), |address| address.to_string())
            }),
            "server.http_token_file" => path(&self.http_token_file),
            "server.users" => path(&self.users),
            "server.roles" => self.roles.map(|roles| roles.to_string()),
            "tls.cert" => path(&self.tls.cert),
            "tls.key" => path(&self.tls.key),
            "tls.client_ca" => path(&self.tls.client_ca),
            "tls.client_crl" => path(&self.tls.client_crl),
            "tls.clients" => self.tls.clients.map(|clients| match clients {
                ClientCertificates::None => "none".to_owned(),
                ClientCertificates::Optional => "optional".to_owned(),
                ClientCertificates::Required => "required".to_owned(),
            }),
            "tls.insecure_plaintext" => self.tls.insecure_plaintext.map(|is_so| is_so.to_string()),
            "database.durability" => self.durability.map(|durability| match durability {
                Durability::Always => "always".to_owned(),
                Durability::Interval(every) => format!("interval:{}", every.as_millis()),
                Durability::None => "none".to_owned(),
                Durability::Memory => "memory".to_owned(),
            }),
            _ => None,
        }
    }
}

/// Returns the settings whose values are not the defaults, as one text. The sizes of the memory, which
/// depend on the machine, have another line.
pub(crate) fn changed(effective: &[(String, String)]) -> String {
    let is_changed = |(known, (name, value)): &(&Setting, &(String, String))| {
        !value.is_empty() && known.default != value && !name.ends_with("memory")
    };
    let changed = SETTINGS.iter().zip(effective).filter(is_changed);
    let changed = changed.map(|(_, (name, value))| format!("{name}={value}"));
    changed.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn effective(settings: &Settings, place: &Place) -> Vec<(String, String)> {
        let memory = Memory::divide(settings, Some(4 << 30)).unwrap();
        settings.effective(&memory, place)
    }

    fn value<'v>(all: &'v [(String, String)], name: &str) -> &'v str {
        &all.iter().find(|(known, _)| known == name).unwrap().1
    }

    #[test]
    fn values_are_given_or_defaults() {
        let settings = Settings {
            listen: Some("127.0.0.1:7".parse().unwrap()),
            durability: Some(Durability::Interval(Duration::from_millis(5))),
            texts: [("log.levels".to_owned(), "debug".to_owned())].into(),
            ..Settings::default()
        };
        let all = effective(&settings, &Place::Directory("data".into()));
        assert_eq!(all.len(), SETTINGS.len());
        assert_eq!(value(&all, "server.listen"), "127.0.0.1:7");
        assert_eq!(value(&all, "server.http"), "127.0.0.1:9180");
        assert_eq!(value(&all, "server.memory"), "1024MiB");
        assert_eq!(value(&all, "database.memory"), "512MiB");
        assert_eq!(value(&all, "database.directory"), "data");
        assert_eq!(value(&all, "log.slow"), "500ms");
        assert_eq!(value(&all, "cluster.url"), "");
        assert_eq!(
            changed(&all),
            "server.listen=127.0.0.1:7 log.levels=debug database.directory=data database.durability=interval:5"
        );
    }

    #[test]
    fn secrets_are_hidden() {
        let url = "cassandra://ann:geheim@h/k?listen=10.0.0.9:9044&secret=sixteen-letters-or-more";
        let settings = Settings { store: Some(url.to_owned()), ..Settings::default() };
        let place = Place::from_settings(None, Some(url)).unwrap().unwrap();
        let all = effective(&settings, &place);
        assert!(value(&all, "cluster.url").contains("h/k"), "{all:?}");
        let text = format!("{all:?}");
        assert!(!text.contains("geheim") && !text.contains("sixteen-letters"), "{text}");
    }
}
