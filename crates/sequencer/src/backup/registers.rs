//! Registers that only one process changes, with any answers lost.

use std::time::Duration;

use carnet_base::{Bytes, Error, Result, Timer};
use carnet_store::cluster::{Cluster, Fault, Faulty, ReadMode, Register, SetAnswer};

const TRIES: u32 = 8;
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Retries until there is an answer or the tries are used up.
pub(super) async fn retry<T, F>(timer: &dyn Timer, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Faulty<T>>,
{
    let mut wait = FIRST_WAIT;
    for _ in 1..TRIES {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(fault) => tracing::debug!(%fault, "a register call failed; trying again"),
        }
        timer.wait(wait).await;
        wait *= 2;
    }
    Ok(ask().await?)
}

/// Reads a register.
pub(super) async fn read<C: Cluster>(
    cluster: &C,
    timer: &dyn Timer,
    register: Register,
) -> Result<Option<Bytes>> {
    retry(timer, || cluster.read_register(register, ReadMode::Serial)).await
}

/// Changes a register. `change` maps the stored value to the new one, or to `None` if it is right
/// already.
pub(super) async fn change<C: Cluster>(
    cluster: &C,
    timer: &dyn Timer,
    register: Register,
    change: impl Fn(Option<&Bytes>) -> Result<Option<Bytes>>,
) -> Result<()> {
    let mut wait = FIRST_WAIT;
    let mut why = Error::unavailable(
        "other processes change it, or this cluster's clocks are behind the clocks that wrote it",
    );
    for _ in 0..TRIES {
        let stored = read(cluster, timer, register).await?;
        let Some(new) = change(stored.as_ref())? else { return Ok(()) };
        match cluster.compare_and_set(register, stored.as_ref(), &new).await {
            // Read the register once more: a write behind a stored one with a later clock is
            // acknowledged and has no effect.
            Ok(SetAnswer::Applied | SetAnswer::Refused(_)) => {}
            Err(Fault::Unknown(error) | Fault::Failed(error)) => {
                why = error;
                timer.wait(wait).await;
                wait *= 2;
            }
        }
    }
    let message = format!("the register {register:?} cannot be changed: {why}");
    Err(Error::unavailable(message))
}
