//! A false agent: it reports a release that nobody should use, or its clock has another rate.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};

/// What the agent is wrong about.
#[derive(Clone, Copy)]
pub(crate) struct FalseAgent {
    pub(crate) version: &'static str,
    /// How much faster its clock is than the true one.
    pub(crate) rate: f64,
}

impl FalseAgent {
    /// Returns its address. It serves until the test's process ends.
    pub(crate) fn start(self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let began = (Timestamp::now(), Instant::now());
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                // An error ends the connection, which the client sees.
                thread::spawn(move || self.serve(&connection, began));
            }
        });
        format!("http://{address}")
    }

    fn serve(
        self,
        connection: &TcpStream,
        (origin, began): (Timestamp, Instant),
    ) -> std::io::Result<()> {
        let mut lines = BufReader::new(connection).lines();
        while let Some(first) = lines.next().transpose()? {
            while lines.next().transpose()?.is_some_and(|it| !it.is_empty()) {}
            let path = first.split(' ').nth(1).unwrap_or_default();
            let body = match path {
                "/v1/status/leader" => "\"127.0.0.1:8300\"".to_owned(),
                "/v1/agent/self" => format!(
                    r#"{{"Config":{{"NodeName":"a","Version":"{}"}}}}"#,
                    self.version
                ),
                _ => "ACL support disabled".to_owned(),
            };
            let passed = began.elapsed().mul_f64(self.rate);
            let passed = SignedDuration::try_from(passed).expect("a short time");
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&(origin + passed));
            write!(
                &mut &*connection,
                "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Length: {}\r\n\r\n{body}",
                date.expect("a date"),
                body.len()
            )?;
        }
        Ok(())
    }
}
