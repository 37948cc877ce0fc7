//! Reads and writes histories in the formats of Jepsen and Elle: EDN, or JSON as `elle-cli` accepts
//! it.
//!
//! ```text
//! {:index 0, :type :invoke, :process 3, :f :txn, :time 10, :value [[:append 7 1] [:r 8 nil]]}
//! {:index 1, :type :ok,     :process 3, :f :txn, :time 25, :value [[:append 7 1] [:r 8 [4 5]]]}
//! ```
//!
//! Events follow each other, or are in one vector. `:append` and `:r` of lists make a list-append
//! history, `:w` and `:r` of numbers a register history. Written values are 64-bit numbers; keys
//! are numbers, strings or keywords. `:time` is optional, and so is `:index`; without it the order
//! in the file counts. A completion without `:process` belongs to the single open invocation with
//! its operations. If no event is an invocation, real time is unknown. Events of other functions
//! and of the nemesis are skipped, other fields ignored.

mod datum;
mod edn;
mod events;
mod open;
mod write;

use crate::error::{BadHistory, Result};
use crate::format::datum::Datum;
use crate::format::events::Events;
use crate::history::History;

pub use write::{write_edn, write_json};

/// Format of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Clojure's notation, like Jepsen's `history.edn`.
    Edn,
    /// The same maps as JSON objects.
    Json,
}

impl Format {
    /// Guesses the format from the text after the first brackets: in JSON it is a quotation mark.
    #[must_use]
    pub fn guess(text: &str) -> Self {
        let brackets = |c: char| c.is_whitespace() || matches!(c, '[' | '{' | ',');
        if text.trim_start_matches(brackets).starts_with('"') { Self::Json } else { Self::Edn }
    }

    /// Reads a history.
    ///
    /// # Errors
    ///
    /// If the text is not of this format or the events are not a history; the message has the
    /// place.
    pub fn read(self, text: &str) -> Result<History> {
        let mut events = Events::default();
        match self {
            Self::Edn => edn::read(text, |datum| add_all(&mut events, &datum))?,
            Self::Json => read_json(text, &mut events)?,
        }
        events.finish()
    }
}

fn read_json(text: &str, events: &mut Events) -> Result<()> {
    // serde_json rejects nesting deeper than 128.
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    while let Some(value) = values.next() {
        let value = value.map_err(|error| BadHistory::new(format!("invalid JSON: {error}")))?;
        let at = values.byte_offset();
        add_all(events, &Datum::from(&value)).map_err(|bad| bad.at(format_args!("byte {at}")))?;
    }
    Ok(())
}

/// Adds an event, or a list of events.
fn add_all(events: &mut Events, datum: &Datum<'_>) -> Result<()> {
    match datum {
        Datum::List(items) => items.iter().try_for_each(|item| events.add(item)),
        event => events.add(event),
    }
}

#[cfg(test)]
mod tests;
