//! The pager: a program that shows a long result on the terminal.

use std::env;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Pager without `$PAGER`: long lines are cut, not wrapped.
const DEFAULT: [&str; 2] = ["less", "-S"];

/// A running pager.
pub(super) struct Pager {
    child: Child,
    input: Option<ChildStdin>,
}

impl Pager {
    /// Starts `$PAGER`, or `less -S`; `None` if `$PAGER` is empty, or there is no such program.
    pub(super) fn start() -> Option<Self> {
        let mut command = match env::var("PAGER") {
            Ok(pager) if pager.trim().is_empty() => return None,
            Ok(pager) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &pager]);
                shell
            }
            Err(_) => {
                let mut less = Command::new(DEFAULT[0]);
                less.args(&DEFAULT[1..]);
                less
            }
        };
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let input = child.stdin.take();
        Some(Self { child, input })
    }

    /// Writes text to the pager; `false` once it has ended.
    pub(super) fn write(&mut self, text: &str) -> bool {
        let Some(input) = &mut self.input else { return false };
        // Only the pager's end makes a write fail.
        let is_written = input.write_all(text.as_bytes()).and_then(|()| input.flush()).is_ok();
        if !is_written {
            self.input = None;
        }
        is_written
    }

    /// Waits until the person has ended the pager.
    pub(super) fn wait(mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
