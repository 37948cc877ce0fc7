//! Options of commands that log in at a server.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::server_tls::ServerTls;
use crate::database::Server;
use crate::password;
use crate::server_address::with_port;

/// Credentials for a server, and files of TLS.
#[derive(Args, Default)]
pub(super) struct Login {
    /// User name, if the server requires a login. The password is asked for on the terminal.
    #[arg(long, value_name = "NAME", requires = "server")]
    user: Option<String>,
    /// File with the user's password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ServerTls,
}

impl Login {
    /// Returns `true` if a file of TLS is given.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_given()
    }

    /// Returns a server with the credentials for it.
    pub(super) fn server(&self, address: &str) -> Result<Server> {
        let credentials = match (&self.user, &self.password_file) {
            (None, _) => None,
            (Some(user), Some(path)) => Some((user.clone(), password::read(path)?)),
            (Some(user), None) if io::stdin().is_terminal() => {
                let [password] = password::ask([&format!("Password of {user}: ")])?;
                Some((user.clone(), password))
            }
            (Some(_), None) => {
                bail!("no terminal to ask for the password: add --password-file FILE")
            }
        };
        Ok(Server { address: with_port(address), credentials, tls: self.tls.config()? })
    }
}

/// Address of a server with the credentials for it, for commands that ask no questions.
#[derive(Args)]
pub(super) struct At {
    /// Address of the server.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9042")]
    at: String,
    /// User name, if the server requires a login.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with the user's password.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ServerTls,
}

impl At {
    /// Returns the address with its port.
    pub(super) fn address(&self) -> String {
        with_port(&self.at)
    }

    /// Returns `true` if a file of TLS is given.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_given()
    }

    /// Returns the server with the credentials for it.
    pub(super) fn server(&self) -> Result<Server> {
        let credentials = match (&self.user, &self.password_file) {
            (Some(user), Some(path)) => Some((user.clone(), password::read(path)?)),
            _ => None,
        };
        Ok(Server { address: self.address(), credentials, tls: self.tls.config()? })
    }
}
