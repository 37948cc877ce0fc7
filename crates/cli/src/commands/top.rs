//! `carnet top`: what a server does, live in the terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use carnet_base::{Clock as _, Moment, SystemClock};
use clap::Args;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;

use super::login::Login;
use crate::database::{Database, Remote};
use crate::interrupt;
use crate::top::{Activity, Sample, draw, height};

/// Columns of a frame that is printed where there is no terminal.
const COLUMNS: u16 = 160;
/// Minimum interval between frames.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Show what a server does: load, latency, bottleneck, statements, transactions and service levels.
///
/// The frame is drawn anew every second. Statements of the asked server are shown, and open
/// transactions of all servers of the database. A role sees the parts that it may read. Space stops the frame
/// and lets it go on; q leaves.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// Address of the server; its port is 9042 by default.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9042")]
    server: String,
    #[command(flatten)]
    login: Login,
    /// Seconds between two frames.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Print one frame as text, and leave.
    #[arg(long)]
    once: bool,
}

const EXAMPLES: &str = "\
Examples:
  carnet top
  carnet top --server db1:9042 --user ann --tls-ca ca.pem
  carnet top --once > frame.txt";

impl Top {
    pub(crate) fn run(self) -> Result<()> {
        let interval = Duration::try_from_secs_f64(self.interval);
        let interval = interval.ok().filter(|interval| *interval >= INTERVAL_MIN);
        let Some(interval) = interval else {
            bail!("--interval {}: give at least 0.1 seconds", self.interval);
        };
        if !self.once && !io::stdout().is_terminal() {
            bail!("standard output is not a terminal: add --once");
        }
        interrupt::watch()?;
        let server = self.login.server(&self.server)?;
        let name = server.address.clone();
        let database = Database::Remote(Box::new(Remote::connect(server)?));
        let before = Sample::take(&database, now)?;
        if self.once {
            pause(interval)?;
            let activity = Activity::between(&before, &Sample::take(&database, now)?);
            print!("{}", text(&name, &activity)?);
            return Ok(());
        }
        let mut screen = ratatui::try_init().context("cannot use the terminal")?;
        let done = watch(&mut screen, &name, &database, (before, interval));
        ratatui::restore();
        done
    }
}

fn now() -> Moment {
    SystemClock.now()
}

/// Waits between the samples of a frame that is printed.
#[expect(clippy::disallowed_methods, reason = "nothing else is to be done meanwhile")]
fn pause(interval: Duration) -> Result<()> {
    std::thread::sleep(interval);
    interrupt::check()
}

/// Draws frames until a key ends it.
fn watch(
    screen: &mut ratatui::DefaultTerminal,
    name: &str,
    database: &Database,
    (mut before, interval): (Sample, Duration),
) -> Result<()> {
    let mut activity = Activity::between(&before, &before);
    let (mut next, mut is_stopped) = (now().after(interval), false);
    loop {
        let title = if is_stopped { format!("{name}  (stopped)") } else { name.to_owned() };
        screen.draw(|frame| draw(frame, &title, &activity)).context("cannot draw")?;
        while now() < next || is_stopped {
            interrupt::check()?;
            let wait = if is_stopped { interval } else { next.since(now()) };
            if !event::poll(wait).context("cannot read keys")? {
                continue;
            }
            match event::read().context("cannot read keys")? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    KeyCode::Char(' ') => is_stopped = !is_stopped,
                    _ => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            break;
        }
        if now() >= next && !is_stopped {
            let after = Sample::take(database, now)?;
            activity = Activity::between(&before, &after);
            (before, next) = (after, now().after(interval));
        }
    }
}

/// Returns a frame as lines of text.
fn text(name: &str, activity: &Activity) -> Result<String> {
    let columns = if io::stdout().is_terminal() { terminal::size().ok() } else { None };
    // A terminal may not know its size.
    let columns = columns.map(|(columns, _)| columns).filter(|columns| *columns > 0);
    let columns = columns.unwrap_or(COLUMNS);
    let mut screen = Terminal::new(TestBackend::new(columns, height(activity)))?;
    screen.draw(|frame| draw(frame, name, activity))?;
    let cells = screen.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    Ok(cells.chunks(usize::from(columns)).map(line).collect())
}
