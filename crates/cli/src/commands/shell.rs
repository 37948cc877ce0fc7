//! `carnet shell`: CQL on a database, with or without a server.

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use carnet::{Builder, Db, Durability, Isolation, block_on};
use carnet_cql::system::{DATA_CENTER, NodeInfo};
use carnet_cql::{Executor, Timestamps};
use clap::{Args, ValueEnum};
use tempfile::TempDir;

use super::login::Login;
use super::new_database;
use crate::database::{Database, Local, Remote};
use crate::origin::Origin;
use crate::place::Place;
use crate::shell::{self, Format, Printer, Session};
use crate::{interrupt, script_text, settings};

/// Run CQL on a database of this process, or behind a server.
///
/// Without DIR the shell uses a new database in a temporary directory, which is removed at the end.
/// Without -e and -f, statements are prompted for on a terminal, and otherwise read from standard
/// input. A script stops at its first error, with exit code 1; the effects of earlier statements
/// stay. Ctrl-C ends the running statement, and a script with exit code 130.
///
/// With --server all statements take one connection to a server of Carnet, Cassandra or ScyllaDB.
/// Files of COPY, SOURCE and CAPTURE are of this machine.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Shell {
    /// The database's directory; created if missing.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Make a new database in DIR although its name looks like a host's, or other files are in it.
    #[arg(long, requires = "directory", conflicts_with = "read_only")]
    create: bool,
    /// A server to connect to; its port is 9042 by default.
    #[arg(long, value_name = "HOST:PORT",
          conflicts_with_all = ["directory", "store", "read_only", "isolation"])]
    server: Option<String>,
    #[command(flatten)]
    login: Login,
    /// A database on a Cassandra or ScyllaDB cluster, as for carnet serve. Beside servers of that
    /// database the shell is one more process: it has to listen, too.
    #[arg(long, value_name = "URL", conflicts_with = "directory")]
    store: Option<String>,
    /// Open the database read-only, for example on a full disk or a read-only mount: no file of it
    /// is changed.
    #[arg(long, requires = "directory")]
    read_only: bool,
    /// Run these statements.
    #[arg(short, long, value_name = "CQL", conflicts_with = "file", allow_hyphen_values = true)]
    execute: Option<String>,
    /// Run the statements of a file. Paths in it are relative to the file.
    #[arg(short, long)]
    file: Option<PathBuf>,
    /// Print a JSON object for each row, one per line.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header.
    #[arg(long)]
    csv: bool,
    /// Do not print a script's statements and comments before their results.
    #[arg(short, long)]
    quiet: bool,
    /// Go on behind a statement of a script that fails. The exit code is 1 if any failed.
    #[arg(long)]
    keep_going: bool,
    /// The isolation level of the statements.
    #[arg(long, value_enum, default_value_t = Level::StrictSerializable)]
    isolation: Level,
    /// What USING TIMESTAMP does, as the server's setting: "refuse" fails the statement, "ignore" runs it
    /// without, and "record" stores the write time, by which the latest value remains.
    #[arg(long, value_name = "HOW", value_parser = settings::timestamps, default_value = "refuse",
          conflicts_with = "server")]
    timestamps: Timestamps,
    /// Name of the data centre, as the server's setting.
    #[arg(long, value_name = "NAME", value_parser = settings::data_center, default_value = DATA_CENTER,
          conflicts_with = "server")]
    data_center: String,
    /// USE this keyspace first.
    #[arg(short, long)]
    keyspace: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  carnet shell
  carnet shell ./data -k bank
  carnet shell ./data --read-only -e \"COPY bank.accounts TO '/mnt/accounts.csv'\"
  carnet shell --store cassandra://127.0.0.1/bank
  carnet shell --server db1:9042 --user ann --tls-ca ca.pem
  carnet shell ./data -e 'SELECT * FROM bank.accounts' --csv > accounts.csv
  carnet shell ./data -e \"COPY bank.accounts FROM STDIN WITH HEADER = true\" < accounts.csv
  carnet shell -f examples/bank.cql

HELP inside the shell lists its own commands.";

/// An isolation level's name on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Statements run as if one at a time, in real-time order.
    StrictSerializable,
    /// Statements run as if one at a time; reads may be stale.
    Serializable,
    /// A transaction reads one snapshot, and only writes of the same row conflict.
    Snapshot,
}

impl From<Level> for Isolation {
    fn from(level: Level) -> Self {
        match level {
            Level::StrictSerializable => Self::StrictSerializable,
            Level::Serializable => Self::Serializable,
            Level::Snapshot => Self::Snapshot,
        }
    }
}

impl Shell {
    pub(crate) fn run(mut self) -> Result<()> {
        let script = self.read_script()?;
        interrupt::watch()?;
        if let Some(server) = self.server.take() {
            let remote = Remote::connect(self.login.server(&server)?)?;
            return self.session(Database::Remote(Box::new(remote)), script);
        }
        if self.login.has_tls() {
            bail!("the files of TLS are for a server: add --server HOST:PORT");
        }
        let opened = Opened::find(self.directory.clone(), self.store.as_deref(), self.create)?;
        let db = opened
            .open(Db::builder().isolation(self.isolation.into()).read_only(self.read_only))?;
        let node = NodeInfo::local(opened.place.host_id("")).in_data_center(&self.data_center);
        let local = Local::new(Executor::with_timestamps(db.clone(), node, self.timestamps));
        let done = self.session(Database::Local(local), script);
        block_on(db.leave());
        done
    }

    /// Runs the script, or statements that are typed.
    fn session(&self, database: Database, script: Option<Script>) -> Result<()> {
        let format = match (self.json, self.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        let echoes = !self.quiet && format == Format::Table;
        let mut session = Session::new(database, Printer::stdout(format));
        if let Some(keyspace) = &self.keyspace {
            session.use_keyspace(keyspace)?;
        }
        let Some(script) = script else { return shell::interactive(&mut session) };
        session.echo(echoes && matches!(script.origin, Origin::File(_)));
        session.keep_going(self.keep_going);
        session.run_script(&script.text, &script.origin)?;
        session.finish()
    }

    /// Returns the script to run; `None` if statements are typed at a terminal.
    fn read_script(&self) -> Result<Option<Script>> {
        if let Some(text) = &self.execute {
            return Ok(Some(Script { text: text.clone(), origin: Origin::Argument }));
        }
        if let Some(path) = &self.file {
            let text = shell::read_script(path)?;
            return Ok(Some(Script { text, origin: Origin::File(path.clone()) }));
        }
        if io::stdin().is_terminal() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = io::stdin().read_to_end(&mut bytes);
        let text = read.map_err(anyhow::Error::from).and_then(|_| script_text::decode(bytes));
        let text = text.context("cannot read standard input")?;
        Ok(Some(Script { text, origin: Origin::StandardInput }))
    }
}

struct Script {
    text: String,
    origin: Origin,
}

/// A database's place, and its temporary directory if it has one.
struct Opened {
    place: Place,
    /// Removed on drop, which must happen after the database is closed.
    scratch: Option<TempDir>,
}

impl Opened {
    fn find(directory: Option<PathBuf>, store: Option<&str>, creates: bool) -> Result<Self> {
        let is_terminal = io::stderr().is_terminal();
        let Some(place) = Place::from_options(directory, store)? else {
            let scratch = TempDir::with_prefix("carnet-")
                .context("cannot make a temporary directory for a scratch database")?;
            if is_terminal {
                let path = scratch.path().display();
                eprintln!("A scratch database in {path}; it is removed at the end.");
            }
            let place = Place::Directory(scratch.path().to_path_buf());
            return Ok(Self { place, scratch: Some(scratch) });
        };
        if let Place::Directory(directory) = &place {
            if let Some(doubt) = new_database::doubt(directory)
                && !creates
            {
                new_database::ask(directory, &doubt)?;
            }
            if is_terminal && !directory.exists() {
                eprintln!("A new database in {}.", directory.display());
            }
        }
        Ok(Self { place, scratch: None })
    }

    fn open(&self, builder: Builder) -> Result<Db> {
        let durability = match self.scratch {
            None => Durability::Always,
            // A temporary database is not opened again after a power cut.
            Some(_) => Durability::None,
        };
        self.place.open(builder.durability(durability))
    }
}
