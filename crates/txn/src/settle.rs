//! Decides whether a candidate is visible at a snapshot, by its stamp or its outcome.

use carnet_base::{CellKey, Result, Timestamp, Version};
use carnet_store::{At, Context, Outcome, Store};

/// Visibility of a candidate at a snapshot.
pub(crate) enum Settled {
    /// The version, with its commit.
    Visible(Version),
    /// The start of the version, below which the read goes on.
    Hidden(Timestamp),
}

/// Decides whether a candidate is visible.
pub(crate) async fn settle(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    candidate: Version,
    at: At,
) -> Result<Settled> {
    if candidate.commit.is_some() {
        return Ok(Settled::Visible(candidate));
    }
    // In memory of its own: most versions are stamped.
    Box::pin(look_up(store, context, key, candidate, at)).await
}

/// Decides by the outcome of the transaction that wrote the candidate.
async fn look_up(
    store: &dyn Store,
    context: &Context,
    key: &CellKey,
    candidate: Version,
    at: At,
) -> Result<Settled> {
    let start = candidate.start;
    match store.outcome_for_reader(context, start, at.read).await? {
        Outcome::Committed(commit) if commit <= at.read => {
            Ok(Settled::Visible(Version { commit: Some(commit), ..candidate }))
        }
        Outcome::Committed(_) => Ok(Settled::Hidden(start)),
        Outcome::Aborted | Outcome::Pending => {
            // Read that version, not a version that became visible later: a newer version on a
            // single replica would be taken for the absence of this version.
            let through = start.checked_add(1).unwrap_or(Timestamp::MAX);
            let again = store.get(context, key, at.below(through)).await?;
            Ok(match again {
                Some(version) if version.start == start && version.commit.is_some() => {
                    Settled::Visible(version)
                }
                _ => Settled::Hidden(start),
            })
        }
    }
}
