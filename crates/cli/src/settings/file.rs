//! Settings from a TOML file.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use carnet::cluster::ClusterUrl;
use toml::de::{DeTable, DeValue};

use super::audit;
use super::known::{is_known, names, sections};
use super::{
    Settings, advertise, bytes, count, data_center, durability, http, isolation, listen, retention,
    timestamps,
};

/// Options of a cluster's URL whose values are paths.
const PATHS: &[&str] =
    &["password_file", "ca", "cert", "key", "secret_file", "peer_cert", "peer_key", "peer_ca"];

/// A setting in a file.
struct Given {
    section: String,
    name: String,
    text: String,
    line: usize,
}

impl Settings {
    /// Reads a settings file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the settings in {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|error| anyhow!("{}, {error:#}", path.display()))
    }

    /// Warns if others than the owner can read the secrets of a settings file.
    pub(crate) fn warn_of_readers(&self, path: &Path) {
        let others_read = std::fs::metadata(path).is_ok_and(|about| about.mode() & 0o044 != 0);
        if others_read && self.store.as_deref().is_some_and(ClusterUrl::has_secret) {
            tracing::warn!(
                "the settings file {} has a password or a secret, and others than its owner can read \
                 it; run chmod 600 on it",
                path.display()
            );
        }
    }

    /// Parses a file's text. Errors begin with the line.
    fn parse(text: &str, folder: &Path) -> Result<Self> {
        let mut settings = Self::default();
        let mut cluster = Vec::new();
        for given in all(text)? {
            let line = given.line;
            if given.section == "cluster" {
                cluster.push(given);
                continue;
            }
            let name = format!("{}.{}", given.section, given.name);
            let taken = settings.take(&given, folder);
            taken.map_err(|why| anyhow!("line {line}: {name} {:?}: {why}", given.text))?;
            settings.texts.insert(name, given.text);
        }
        settings.store = store(&cluster, folder)?;
        if settings.store.is_some() && settings.directory.is_some() {
            bail!("line 1: the database is in database.directory or on cluster.url, not both");
        }
        Ok(settings)
    }

    fn take(&mut self, given: &Given, folder: &Path) -> Result<(), String> {
        let text = &*given.text;
        let path = || folder.join(text);
        match (&*given.section, &*given.name) {
            ("server", "listen") => self.listen = Some(listen(text)?),
            ("server", "advertise") => self.advertise = Some(advertise(text)?),
            ("server", "data_center") => self.data_center = Some(data_center(text)?),
            ("server", "http") => self.http = Some(http(text)?),
            ("server", "http_hosts") => self.http_hosts = audit::names(text),
            ("server", "http_dashboard") => self.http_dashboard = Some(truth(text)?),
            ("server", "http_console") => self.http_console = Some(truth(text)?),
            ("server", "http_token_file") => self.http_token_file = Some(path()),
            ("server", "table_metrics") => self.table_metrics = Some(count_or_none(text)?),
            ("server", "users") => self.users = Some(path()),
            ("server", "roles") => self.roles = Some(truth(text)?),
            ("server", "timestamps") => self.timestamps = Some(timestamps(text)?),
            ("server", "connections") => self.connections = Some(count(text)?),
            ("server", "connections_per_address") => {
                self.connections_per_address = Some(count(text)?);
            }
            ("server", "connections_per_user") => {
                self.connections_per_user = Some(count(text)?);
            }
            ("server", "request_memory") => self.request_bytes = Some(bytes(text)?),
            ("server", "request_memory_per_address") => {
                self.request_bytes_per_address = Some(bytes(text)?);
            }
            ("server", "idle_timeout") => self.idle_timeout = Some(retention(text)?),
            ("server", "shutdown_timeout") => self.shutdown_timeout = Some(retention(text)?),
            ("server", "memory") => self.server_bytes = Some(bytes(text)?),
            ("server", "answer_memory") => self.answer_bytes = Some(bytes(text)?),
            ("server", "prepared_memory") => self.prepared_bytes = Some(bytes(text)?),
            ("database", "directory") => self.directory = Some(path()),
            ("database", "durability") => self.durability = Some(durability(text)?),
            ("database", "memory") => self.memory_bytes = Some(bytes(text)?),
            ("database", "transaction_memory") => self.transaction_bytes = Some(bytes(text)?),
            ("database", "retention") => self.retention = Some(retention(text)?),
            ("database", "isolation") => self.isolation = Some(isolation(text)?),
            ("tls", name) => self.tls.take(name, text, folder)?,
            ("audit", name) => self.audit.take(name, text, folder)?,
            ("log", name) => self.log.take(name, text)?,
            ("limits", name) => self.limits.take(name, text)?,
            ("io", name) => self.io.take(name, text)?,
            (section, name) => unreachable!("{section}.{name} is known and not taken"),
        }
        Ok(())
    }
}

/// Parses a number that may be 0.
fn count_or_none(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number such as 100, or 0 for none".to_owned())
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Lists the settings of a file in its order, and refuses unknown ones.
fn all(text: &str) -> Result<Vec<Given>> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        anyhow!("line {}: {}", line(at), error.message())
    })?;
    let mut given = Vec::new();
    for (section, value) in table.into_inner() {
        let at = line(section.span().start);
        let section = section.into_inner().into_owned();
        if !sections().contains(&&*section) {
            bail!(
                "line {at}: unknown section [{section}]; the sections are {}",
                sections().join(", ")
            );
        }
        let DeValue::Table(settings) = value.into_inner() else {
            bail!("line {at}: {section} is a section: [{section}]");
        };
        for (name, value) in settings {
            let at = line(name.span().start);
            let name = name.into_inner().into_owned();
            if !is_known(&section, &name) {
                let names: Vec<&str> = names(&section).collect();
                bail!("line {at}: [{section}] has no setting {name}; it has {}", names.join(", "));
            }
            let text = match value.into_inner() {
                DeValue::String(text) => text.into_owned(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Boolean(is_so) => is_so.to_string(),
                _ => bail!("line {at}: {section}.{name} takes a text, between quotes"),
            };
            given.push(Given { section: section.clone(), name, text, line: at });
        }
    }
    given.sort_by_key(|given| given.line);
    Ok(given)
}

/// Builds the URL of a cluster from its section.
fn store(cluster: &[Given], folder: &Path) -> Result<Option<String>> {
    let Some(first) = cluster.first().map(|given| given.line) else { return Ok(None) };
    let Some(url) = cluster.iter().find(|given| given.name == "url") else {
        bail!("line {first}: cluster.url is missing");
    };
    let line = url.line;
    let mut url = url.text.clone();
    for Given { name, text, .. } in cluster.iter().filter(|given| given.name != "url") {
        let text = if PATHS.contains(&&**name) {
            let path: PathBuf = folder.join(text);
            path.display().to_string()
        } else {
            text.clone()
        };
        url.push(if url.contains('?') { '&' } else { '?' });
        let _ = write!(url, "{name}={}", encoded(&text));
    }
    ClusterUrl::parse(&url).map_err(|error| anyhow!("line {line}: {error}"))?;
    Ok(Some(url))
}

/// Percent-encodes all characters that have a meaning in a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:,".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carnet::{Durability, Isolation};
    use carnet_base::{Rng, SeededRng};
    use carnet_cql::Timestamps;
    use carnet_server::ClientCertificates;

    use super::super::audit::Audit;
    use super::super::io::Io;
    use super::super::limits::Limits;
    use super::super::log::{Log, LogFormat};
    use super::super::template;
    use super::super::tls::Tls;
    use super::*;

    fn parse(text: &str) -> Result<Settings> {
        Settings::parse(text, Path::new("/etc/carnet"))
    }

    #[test]
    fn file_has_the_command_lines_settings() {
        let settings = parse(
            "[server]\nlisten = \"127.0.0.1:1\"\nadvertise = \"10.0.0.9:2\"\ndata_center = \"eu-1\"\nhttp = \"off\"\n\
             users = \"users\"\nroles = true\nhttp_token_file = \"token\"\nhttp_hosts = \"db1.example.com, db1\"\n\
             http_dashboard = true\nhttp_console = false\ntable_metrics = 7\ntimestamps = \"ignore\"\n\
             connections = 100\nconnections_per_address = \"10\"\nconnections_per_user = 9\n\
             request_memory = \"64MiB\"\nrequest_memory_per_address = \"32MiB\"\n\
             idle_timeout = \"1m\"\nshutdown_timeout = \"30s\"\nmemory = \"96MiB\"\nanswer_memory = \"32MiB\"\nprepared_memory = \"8MiB\"\n\
             [database]\ndirectory = \"/srv/data\"\ndurability = \"interval:50\"\n\
             memory = \"1GiB\"\ntransaction_memory = \"48MiB\"\nretention = \"2h\"\nisolation = \"snapshot\"\n\
             [limits]\nrunning = 4\nshed_after = \"20ms\"\nscan_timeout = \"2m\"\n\
             [tls]\ncert = \"server.crt\"\nkey = \"/keys/server.key\"\nclient_ca = \"ca.crt\"\n\
             client_crl = \"ca.crl\"\nclients = \"optional\"\ninsecure_plaintext = true\n\
             [log]\nlevels = \"warn\"\nformat = \"json\"\n[io]\nnice = 5\n",
        )
        .unwrap();
        let expected = Settings {
            listen: Some("127.0.0.1:1".parse().unwrap()),
            advertise: Some("10.0.0.9:2".parse().unwrap()),
            data_center: Some("eu-1".to_owned()),
            http: Some(super::super::Http(None)),
            http_token_file: Some("/etc/carnet/token".into()),
            http_hosts: ["db1.example.com", "db1"].map(str::to_owned).into(),
            http_dashboard: Some(true),
            http_console: Some(false),
            table_metrics: Some(7),
            users: Some("/etc/carnet/users".into()),
            roles: Some(true),
            timestamps: Some(Timestamps::Ignore),
            connections: Some(100),
            connections_per_address: Some(10),
            connections_per_user: Some(9),
            request_bytes: Some(64 << 20),
            request_bytes_per_address: Some(32 << 20),
            idle_timeout: Some(Duration::from_secs(60)),
            shutdown_timeout: Some(Duration::from_secs(30)),
            answer_bytes: Some(32 << 20),
            server_bytes: Some(96 << 20),
            prepared_bytes: Some(8 << 20),
            directory: Some("/srv/data".into()),
            store: None,
            durability: Some(Durability::Interval(Duration::from_millis(50))),
            memory_bytes: Some(1 << 30),
            transaction_bytes: Some(48 << 20),
            retention: Some(Duration::from_secs(7_200)),
            isolation: Some(Isolation::Snapshot),
            limits: Limits {
                running: Some(4),
                shed_after: Some(Duration::from_millis(20)),
                scan_timeout: Some(Duration::from_secs(120)),
                ..Limits::default()
            },
            tls: Tls {
                cert: Some("/etc/carnet/server.crt".into()),
                key: Some("/keys/server.key".into()),
                client_ca: Some("/etc/carnet/ca.crt".into()),
                client_crl: Some("/etc/carnet/ca.crl".into()),
                clients: Some(ClientCertificates::Optional),
                insecure_plaintext: Some(true),
            },
            audit: Audit::default(),
            log: Log { levels: Some("warn".into()), format: LogFormat::Json, ..Log::default() },
            texts: settings.texts.clone(),
            io: Io { nice: Some(5), ..Default::default() },
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn cluster_section_takes_every_url_option() {
        let settings = parse(
            "[cluster]\nurl = \"cassandra://ann@h1,h2/ks?threads=2\"\nlease = \"2s\"\n\
             password_file = \"pass word\"\nlisten = \"10.0.0.1:9\"\nsecret = \"a&b=c\"\n",
        )
        .unwrap();
        let url = ClusterUrl::parse(&settings.store.unwrap()).unwrap();
        assert_eq!(url.password_file, Some("/etc/carnet/pass word".into()));
        assert_eq!((url.cql.threads, url.sequencer.lease.timeout), (2, Duration::from_secs(2)));
        let secret = carnet::cluster::Secret::Text("a&b=c".into());
        assert_eq!(url.peers.unwrap().secret, Some(secret));
    }

    #[test]
    fn template_lists_all_settings_commented_out() {
        assert_eq!(parse(&template()).unwrap(), Settings::default());
        let template = template();
        let lines: Vec<&str> = template.lines().collect();
        for section in sections() {
            for name in names(section) {
                let is_there =
                    |line: &&str| line.starts_with(&format!("#{name} ")) && line.contains("= \"");
                assert!(lines.iter().any(is_there), "{section}.{name}");
            }
        }
        // Every setting that has a default parses with it.
        let given: String = lines
            .iter()
            .take_while(|line| **line != "[cluster]")
            .filter(|line| !line.ends_with("# an example"))
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
                _ => line,
            })
            .flat_map(|line| [line, "\n"])
            .collect();
        let settings = parse(&given).unwrap();
        assert_eq!(settings.durability, Some(Durability::Always));
        assert_eq!(settings.memory_bytes, None);
        assert_eq!(settings.isolation, Some(Isolation::StrictSerializable));
        assert_eq!(settings.timestamps, Some(Timestamps::Refuse));
        // The defaults come from the code.
        let (given, none) = (settings.limits, Limits::default());
        let all = |limits: &Limits| {
            let (gates, timeouts) = (limits.admission(), limits.timeouts());
            format!(
                "{gates:?} {timeouts:?} {:?} {:?}",
                limits.open_transactions(),
                limits.warn_thresholds()
            )
        };
        assert_eq!(all(&given), all(&none));
        assert_eq!(settings.io.options(), Io::default().options());
        let server = carnet_server::Limits::default();
        assert_eq!(settings.idle_timeout, Some(server.idle_timeout));
        assert_eq!(settings.shutdown_timeout, Some(server.drain_timeout));
        assert_eq!(settings.connections, Some(server.connections_max));
        assert_eq!(settings.connections_per_address, Some(server.connections_max / 2));
        assert_eq!(settings.retention, Some(Duration::from_secs(600)));
    }

    /// A line that is taken out of its comment does not make the file wrong.
    #[test]
    fn every_line_of_the_template_is_taken() {
        let template = template();
        let (others, cluster) = template.split_once("[cluster]\n").unwrap();
        let setting = |line: &'static str| {
            let setting = line.strip_prefix('#')?;
            setting.starts_with(|c: char| c.is_ascii_lowercase()).then_some(setting)
        };
        let mut section = "";
        for line in others.to_owned().leak().lines() {
            if line.starts_with('[') {
                section = line;
            }
            let Some(setting) = setting(line) else { continue };
            let parsed = parse(&format!("{section}\n{setting}\n"));
            assert!(parsed.is_ok(), "{section} {setting}: {:?}", parsed.err());
        }
        // Most options of a cluster need others.
        let lines: Vec<&str> = cluster.to_owned().leak().lines().filter_map(setting).collect();
        for left_out in ["secret ", "secret_file "] {
            let lines = lines.iter().filter(|line| !line.starts_with(left_out));
            let text: String = lines.flat_map(|line| [line, "\n"]).collect();
            let parsed = parse(&format!("[cluster]\n{text}"));
            assert!(parsed.is_ok(), "{text}: {:?}", parsed.err());
        }
    }

    /// The pages show the defaults of these sections, for a machine of two processors.
    #[test]
    fn defaults_on_pages_are_those_of_the_code() {
        let page = include_str!("../../../../docs/overload.md");
        let mut blocks =
            page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let limits = parse(blocks.next().unwrap()).unwrap().limits;
        let gates = carnet_admission::AdmissionLimits::of_server(2).statements;
        assert_eq!(limits.admission().statements, gates);
        assert_eq!(limits.timeouts(), Limits::default().timeouts());
        let io = parse(blocks.next().unwrap()).unwrap().io;
        assert_eq!(io.options(), Io::default().options());
        let page = include_str!("../../../../docs/cql.md");
        let open = Limits::default().open_transactions();
        let minutes = open.idle_timeout.as_secs() / 60;
        for (setting, default) in [
            ("transaction_idle_timeout", format!("`{minutes}m`")),
            ("transactions", open.transactions_max.to_string()),
        ] {
            let begin = format!("| `{setting}` |");
            let row = page.lines().find(|line| line.starts_with(&begin)).unwrap();
            assert!(row.ends_with(&format!("| {default} |")), "{row}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, why) in [
            (
                "[server]\n\nlisten = \"here\"",
                "line 3: server.listen \"here\": expected an address",
            ),
            (
                "[server]\nport = 1",
                "line 2: [server] has no setting port; it has listen, advertise, data_center, http",
            ),
            (
                "\n[sever]",
                "line 2: unknown section [sever]; the sections are server, tls, audit, log, database, limits, io, cluster",
            ),
            ("server = 1", "line 1: server is a section"),
            ("[server]\nlisten = [1]", "line 2: server.listen takes a text"),
            ("[server]\nlisten = \"x", "line 2: "),
            (
                "[server]\ntimestamps = \"keep\"",
                "line 2: server.timestamps \"keep\": expected refuse, ignore or record",
            ),
            ("[tls]\nclients = \"some\"", "line 2: tls.clients \"some\": expected none, optional"),
            (
                "[tls]\ninsecure_plaintext = 1",
                "line 2: tls.insecure_plaintext \"1\": expected true",
            ),
            ("[server]\nusers = \"a\"\nusers = \"b\"", "line 3: duplicate key"),
            ("[database]\nmemory = 5", "line 2: database.memory \"5\": expected a size"),
            ("[cluster]\nlease = \"1s\"", "line 2: cluster.url is missing"),
            (
                "[cluster]\nlease = \"1x\"\nurl = \"cassandra://h/k\"",
                "line 3: the cluster's URL: lease",
            ),
            ("[cluster]\nurl = \"h\"", "line 2: the cluster's URL"),
            ("[database]\ndirectory = \"d\"\n[cluster]\nurl = \"cassandra://h/k\"", "not both"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic() {
        let good = "[server]\nlisten = \"1\"\n[cluster]\nurl = \"cassandra://h/k\"\n[database]";
        for seed in 0..5_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.as_bytes().to_vec();
            for _ in 0..1 + rng.below(5) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = b"[]\"=\n#.'{}\\ 1a"[usize::try_from(rng.below(14)).unwrap()];
            }
            let _ = parse(std::str::from_utf8(&bytes).unwrap());
        }
    }
}
