//! `carnet hash-password`: a line for the users file of `carnet serve`.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, bail};
use carnet_server::hash_password;
use clap::Args;

use crate::password;

/// Maximum length of a password in bytes.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Print the line NAME:HASH of a user, for `carnet serve --users`.
///
/// The password is asked for on a terminal, and otherwise read from standard input, up to the end
/// of the line. The hash is Argon2id with a fresh salt.
#[derive(Args)]
#[command(after_help = "Example:\n  carnet hash-password ann >> users")]
pub(crate) struct HashPassword {
    /// The user's name.
    name: String,
}

impl HashPassword {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.name;
        if name.is_empty() || name.starts_with('#') || name.contains([':', '\n', '\r', '\0']) {
            bail!(
                "a user's name must not be empty, begin with #, or contain a colon or a line break"
            );
        }
        let password =
            if io::stdin().is_terminal() { ask(&name)? } else { read_line(io::stdin().lock())? };
        if password.is_empty() {
            bail!("the password is empty; give one of at least one byte");
        }
        println!("{name}:{}", hash_password(&password)?);
        Ok(())
    }
}

fn read_line(input: impl BufRead) -> Result<String> {
    let mut line = String::new();
    input
        .take(PASSWORD_BYTES_MAX + 2)
        .read_line(&mut line)
        .context("cannot read the password from standard input")?;
    let password = line.trim_end_matches(['\n', '\r']);
    if password.len() as u64 > PASSWORD_BYTES_MAX {
        bail!("the password is longer than {PASSWORD_BYTES_MAX} bytes");
    }
    Ok(password.to_owned())
}

/// Asks for a password on the terminal, twice.
fn ask(name: &str) -> Result<String> {
    let prompt = format!("Password of {name}: ");
    let [password, again] = password::ask([&prompt, "The same again: "])?;
    if again != password {
        bail!("the passwords differ");
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_ends_with_its_line() {
        assert_eq!(read_line(&b"secret word\r\nmore"[..]).unwrap(), "secret word");
        assert_eq!(read_line(&b"secret"[..]).unwrap(), "secret");
        let long = vec![b'x'; 5000];
        assert!(read_line(&long[..]).is_err());
    }
}
