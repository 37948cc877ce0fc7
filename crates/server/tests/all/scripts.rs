//! Golden scripts of the native protocol: frames in, frames out.
//!
//! Rewrite the expected output with `UPDATE_GOLDENFILES=1 cargo test -p carnet-server --test all scripts::`, and read the
//! diff. The server runs on the toy backend. Each command sends a frame and prints the answer.
//!
//! ```text
//! server [users=true]              starts a server; with users, ann logs in with the password one
//! connect 4                        a connection of protocol version 4
//! startup [COMPRESSION=lz4] …      STARTUP with these options
//! options                          OPTIONS
//! query "select 1" [stream=3]      QUERY, by default on stream 1
//! prepare "select 1"               PREPARE
//! register SCHEMA_CHANGE           REGISTER
//! log-in ann one                   AUTH_RESPONSE with user and password
//! send 05000001                    these bytes, in hexadecimal
//! receive                          nothing; the next frame, such as an event
//! ```
//!
//! A prefix such as `a:` names one of several connections.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use bytes::BufMut;
use carnet_server::Limits;
use goldenscript::{Argument, Command};

use crate::support::{
    AUTH_SUCCESS, AUTHENTICATE, Client, ERROR, EVENT, OPTIONS, PASSWORDS, PREPARE, READY, REGISTER,
    RESULT, Response, Running, SUPPORTED, put_string,
};

/// Bytes of a body that are printed.
const SHOWN_BYTES: usize = 64;

/// A connection, and whether its STARTUP asked for compression.
struct Connection {
    client: Client,
    compression: bool,
}

#[derive(Default)]
struct Script {
    server: Option<Running>,
    connections: HashMap<Option<String>, Connection>,
}

impl Script {
    fn connect(&mut self, name: Option<String>, version: u8) -> Result<String, Box<dyn Error>> {
        let server = self.server.as_ref().ok_or("start a server first")?;
        let client = Client::connect(server.address, version);
        self.connections.insert(name, Connection { client, compression: false });
        Ok(String::new())
    }
}

impl Connection {
    fn startup(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut options = Vec::new();
        for argument in &command.args {
            let Argument::KeyValue(name, value) = argument else { return Err("no option".into()) };
            options.push((name.as_str(), value.as_str()));
        }
        self.compression = options.contains(&("COMPRESSION", "lz4"));
        self.client.startup(&options);
        Ok(())
    }

    fn send(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let mut args = command.consume_args();
        let stream: i16 = args.take_key("stream").map_or(Ok(1), str::parse)?;
        let words: Vec<&str> = std::iter::from_fn(|| args.next_pos()).collect();
        let client = &mut self.client;
        match (command.name.as_str(), &words[..]) {
            ("startup", []) => self.startup(command)?,
            ("options", []) => client.send(stream, OPTIONS, 0, &[]),
            ("query", [text]) => client.query(stream, text),
            ("prepare", [text]) => {
                let mut body = Vec::new();
                body.put_i32(i32::try_from(text.len())?);
                body.put_slice(text.as_bytes());
                client.send(stream, PREPARE, 0, &body);
            }
            ("register", [kind]) => {
                let mut body = vec![0, 1];
                put_string(&mut body, kind);
                client.send(stream, REGISTER, 0, &body);
            }
            ("log-in", [user, password]) => client.log_in(user, password),
            ("send", [hex]) => client.send_bytes(&bytes(hex)?),
            ("receive", []) => {}
            other => return Err(format!("unknown command {other:?}").into()),
        }
        Ok(())
    }

    /// Receives a frame, and describes it.
    fn receive(&mut self) -> String {
        let Some(response) = self.client.try_receive() else {
            return "the server closed the connection\n".to_owned();
        };
        if matches!(response.opcode, READY | AUTHENTICATE) {
            // The frames that follow have the encoding that STARTUP negotiated.
            self.client.settle(self.compression);
        }
        describe(&response)
    }
}

fn describe(response: &Response) -> String {
    let name = match response.opcode {
        ERROR => {
            let (code, message) = response.error();
            return format!("stream {}: ERROR {code:#06x} {message}\n", response.stream);
        }
        READY => "READY",
        AUTHENTICATE => "AUTHENTICATE",
        AUTH_SUCCESS => "AUTH_SUCCESS",
        SUPPORTED => "SUPPORTED",
        RESULT => "RESULT",
        EVENT => "EVENT",
        _ => "another opcode",
    };
    let mut said = format!("stream {}: {name}, {} bytes", response.stream, response.body.len());
    for (at, chunk) in response.body.chunks(16).take(SHOWN_BYTES / 16).enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        let text: String = chunk.iter().map(shown).collect();
        let _ = write!(said, "\n  {:04x}  {:<47}  {text}", at * 16, hex.join(" "));
    }
    if response.body.len() > SHOWN_BYTES {
        said.push_str("\n  …");
    }
    said.push('\n');
    said
}

fn bytes(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(Into::into);
    (0..hex.len()).step_by(2).map(byte).collect()
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        match command.name.as_str() {
            "server" => {
                let users = args.take_key("users").is_some().then_some(PASSWORDS);
                self.server = Some(Running::with(Limits::default(), users));
                Ok(String::new())
            }
            "connect" => {
                let version = args.next_pos().ok_or("no version")?.parse()?;
                self.connect(context.prefix.clone(), version)
            }
            _ => {
                let connection = self.connections.get_mut(&context.prefix);
                let connection = connection.ok_or("connect first")?;
                connection.send(command)?;
                Ok(connection.receive())
            }
        }
    }
}

fn run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name);
    goldenscript::run(&mut Script::default(), &path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn script_of_a_greeting() {
    run("greeting");
}

#[test]
fn script_of_log_ins() {
    run("log_in");
}

#[test]
fn script_of_statements() {
    run("statements");
}

#[test]
fn script_of_violations() {
    run("violations");
}
