//! Address of a server on the command line.

/// Default port of a server.
const PORT: u16 = 9042;

/// Appends the default port to an address without one.
pub(crate) fn with_port(at: &str) -> String {
    let has_port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { at.to_owned() } else { format!("{at}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_port_gets_the_usual_one() {
        assert_eq!(with_port("db1"), "db1:9042");
        assert_eq!(with_port("db1:7000"), "db1:7000");
        assert_eq!(with_port("[::1]"), "[::1]:9042");
        assert_eq!(with_port("[::1]:7000"), "[::1]:7000");
    }
}
