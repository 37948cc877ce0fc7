//! Golden scripts of the election: two processes, one lease, and rows that are fenced.
//!
//! Rewrite the expected output with `UPDATE_GOLDENFILES=1 cargo test -p carnet-sequencer --lib script`, and read the
//! diff.
//!
//! ```text
//! a: go                the process's next action, and its result
//! a: go lost           the action is done, and its answer is lost
//! a: go fails          the action fails
//! a: release           the process shuts down
//! wait 1000            milliseconds pass
//! lease                the lease
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use goldenscript::Command;

use super::*;
use crate::lease::Address;

/// Outcome of an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Done,
    Lost,
    Fails,
}

#[derive(Default)]
struct Script {
    now_millis: u64,
    lease: Option<Lease>,
    /// Epoch of all rows of the commit table.
    fenced: Epoch,
    processes: BTreeMap<String, (Candidate, Action)>,
}

impl Script {
    /// Carries out an action; returns its result for the process, and for the script.
    fn act(&mut self, action: &Action, delivery: Delivery) -> (Input, String) {
        let failed = |input| (input, "failed".to_owned());
        match action {
            Action::Read if delivery == Delivery::Done => {
                (Input::Lease(self.lease.clone()), lease_text(self.lease.as_ref()))
            }
            Action::Set { expected, new } if delivery != Delivery::Fails => {
                let fits = self.lease == *expected;
                if fits {
                    self.lease = Some(new.clone());
                }
                match (fits, delivery) {
                    (_, Delivery::Lost) => (Input::Unsure, "no answer".to_owned()),
                    (true, _) => (Input::Set, "set".to_owned()),
                    (false, _) => (Input::NotSet(self.lease.clone()), "not set".to_owned()),
                }
            }
            Action::Fence { epoch, .. } if delivery == Delivery::Done => {
                if self.fenced > *epoch {
                    return (Input::Superseded, "a later epoch was found".to_owned());
                }
                self.fenced = *epoch;
                (Input::Fenced, "fenced".to_owned())
            }
            Action::Set { .. } => failed(Input::Unsure),
            Action::Read | Action::Fence { .. } => failed(Input::Failed),
            Action::Serve(_) | Action::Extend(_) | Action::Wait(_) => {
                let standing = self.standing();
                (Input::Next(standing), String::new())
            }
            Action::StepDown | Action::Stop => (Input::Next(None), String::new()),
        }
    }

    /// Returns the standing of a leader that has used most of its timestamps.
    fn standing(&self) -> Option<Standing> {
        let lease = self.lease.as_ref()?;
        let latest = lease.fence_from;
        Some(Standing { fence_from: latest, latest, wall: WallTime(7), headroom: 10 })
    }

    fn step(&mut self, name: &str, delivery: Delivery) -> String {
        let now = Moment(Duration::from_millis(self.now_millis));
        let (mut candidate, action) = self.processes.remove(name).unwrap_or_else(|| {
            let nonce = u64::from(name.as_bytes()[0]);
            let address = Address::new(format!("node-{name}")).unwrap();
            let options = LeaseOptions { bound_step: 100, ..LeaseOptions::default() };
            let mut candidate = Candidate::new(Owner { nonce, address }, options);
            let action = candidate.step(Input::Next(None), now);
            (candidate, action)
        });
        let (input, result) = self.act(&action, delivery);
        let said = format!(
            "{}{}{result}\n",
            action_text(&action),
            if result.is_empty() { "" } else { ": " }
        );
        let next = candidate.step(input, now);
        self.processes.insert(name.to_owned(), (candidate, next));
        said
    }
}

fn lease_text(lease: Option<&Lease>) -> String {
    let Some(lease) = lease else { return "no lease".to_owned() };
    let Lease { epoch, renewal, bound, fence_from, released, .. } = lease;
    let state = if *released { ", released" } else { "" };
    format!(
        "epoch {}, renewal {renewal}, bound {bound}, fenced from {fence_from}, of {}{state}",
        epoch.0,
        lease.owner.address.as_str()
    )
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Read => "read the lease".to_owned(),
        Action::Set { new, .. } => format!("set the lease to ({})", lease_text(Some(new))),
        Action::Fence { epoch, from, to } => {
            format!("raise rows {from} to {to} to epoch {}", epoch.0)
        }
        Action::Serve(term) => {
            format!("serve epoch {}: timestamps {} to {}", term.epoch.0, term.first, term.bound)
        }
        Action::Extend(bound) => format!("serve up to {bound}"),
        Action::StepDown => "step down".to_owned(),
        Action::Wait(time) => format!("wait {} ms", time.as_millis()),
        Action::Stop => "stop".to_owned(),
    }
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let word = command.consume_args().next_pos();
        Ok(match (command.name.as_str(), word, context.prefix.as_deref()) {
            ("go", None, Some(name)) => self.step(name, Delivery::Done),
            ("go", Some("lost"), Some(name)) => self.step(name, Delivery::Lost),
            ("go", Some("fails"), Some(name)) => self.step(name, Delivery::Fails),
            ("release", None, Some(name)) => {
                let now = Moment(Duration::from_millis(self.now_millis));
                let (candidate, action) = self.processes.get_mut(name).ok_or("it has not begun")?;
                *action = candidate.step(Input::Release, now);
                String::new()
            }
            ("wait", Some(millis), None) => {
                self.now_millis += millis.parse::<u64>()?;
                String::new()
            }
            ("lease", None, None) => lease_text(self.lease.as_ref()) + "\n",
            other => return Err(format!("unknown command {other:?}").into()),
        })
    }
}

fn run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name);
    goldenscript::run(&mut Script::default(), &path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn script_of_an_election() {
    run("election");
}

#[test]
fn script_of_lost_answers() {
    run("lost_answers");
}
