//! The text of `HELP`.

/// Text of `HELP` without a command. A line with an indentation of two begins a command's text.
const HELP: &str = "\
CQL statements end with a semicolon; BEGIN TRANSACTION … COMMIT TRANSACTION; is one statement.
Commands other than COPY may end with their line. Ctrl-C ends the running statement.
∅ in a table stands for null.

The shell's own commands:
  COPY table [(columns)] FROM 'file.csv' | STDIN [WITH option = value AND …]
  COPY table [(columns)] TO   'file.csv' | STDOUT [WITH …]
       HEADER = false        the first line names the columns
       DELIMITER = ','       one character
       QUOTE = '\"'           one character
       ESCAPE = '\\'          before a quote in quotes and before itself, as in cqlsh;
                             '\"' doubles quotes instead, as in RFC 4180
       NULL = ''             how null is written; an empty text stands in quotes
       DATETIMEFORMAT = …    form of timestamps, as '%Y-%m-%d %H:%M:%S'
       PAGESIZE = 1000       TO: rows read at a time
       CHUNKSIZE = 500       FROM: rows in a transaction
       MAXERRORS = 0         FROM: refused rows that are passed over; -1: all.
                             MAXPARSEERRORS and MAXINSERTERRORS count separately
       ERRFILE = …           FROM: file for these rows, by default import_<table>.err
       CQLSHEXPORT = …       FROM: whether texts are as cqlsh exports them; by default
                             if lines end with CR LF, as cqlsh's do
  CAPTURE ['file' | OFF]     append results to a file
  CLEAR, CLS                 clear the terminal
  CONSISTENCY [level], SERIAL CONSISTENCY [level]
                             for a server's statements; Carnet needs none
  DESCRIBE KEYSPACES | TABLES | SCHEMA | KEYSPACE name | TABLE name
  EXPAND [ON | OFF]          print a line for each value; rows wider than the
                             terminal are always printed so
  LOGIN user                 connect to the server as another user
  PAGING [ON | OFF | rows]   rows of a page
  SHOW BOTTLENECK            what statements wait for; of a server only
  SHOW STATEMENTS | TRANSACTIONS | STATISTICS | CONFLICTS | WAITS
                             what a server runs and has run; KILL STATEMENT id ends one
  SHOW VERSION | HOST | SESSION id
  SOURCE 'script.cql'        run a script
  TRACING [ON | OFF]         show the steps of statements and their times
  HELP [command]             this text, or the part about one command
  EXIT, QUIT                 leave; so does Ctrl-D
";

/// Returns the text about a command, in upper case, or about all.
pub(super) fn help(topic: Option<&str>) -> String {
    let Some(topic) = topic else { return HELP.trim_end().to_owned() };
    let mut found = String::new();
    let mut is_wanted = false;
    for line in HELP.lines() {
        match line.strip_prefix("  ") {
            Some(head) if !head.starts_with(' ') => is_wanted = begins(head, topic),
            Some(_) => {}
            None => is_wanted = false,
        }
        if is_wanted {
            found.push_str(line);
            found.push('\n');
        }
    }
    if found.is_empty() {
        return format!(
            "HELP has no text about {topic}: it lists the shell's own commands; docs/cql.md describes the statements of CQL"
        );
    }
    found.trim_end().to_owned()
}

/// Returns `true` if the first line of a command's text is of this command: `CLEAR, CLS` is of both.
fn begins(head: &str, topic: &str) -> bool {
    let names = head.split("  ").next().unwrap_or_default();
    names.split(", ").any(|name| name.split(' ').next() == Some(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_about_one_command() {
        let copy = help(Some("COPY"));
        assert!(copy.starts_with("  COPY table [(columns)] FROM"), "{copy}");
        assert!(copy.contains("ERRFILE") && !copy.contains("CAPTURE"), "{copy}");
        assert_eq!(help(Some("CLS")), "  CLEAR, CLS                 clear the terminal");
        assert!(help(Some("SERIAL")).contains("Carnet needs none"));
        assert!(help(Some("QUIT")).contains("Ctrl-D"));
        assert_eq!(help(Some("SHOW")).lines().count(), 4);
        assert!(help(Some("SELECT")).starts_with("HELP has no text about SELECT"));
        assert!(help(None).contains("COPY") && help(None).contains("EXIT"));
    }
}
