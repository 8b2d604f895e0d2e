//! The agent's URL.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

/// The address of a Consul agent: scheme, host, port, and a path if it has one; or a Unix socket.
///
/// It never holds credentials, a query or a fragment, so it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentUrl {
    https: bool,
    host: String,
    port: Option<u16>,
    path: String,
    socket: Option<String>,
}

impl AgentUrl {
    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(&self.host)
    }

    /// The port. Without one in the address it is 80 or 443.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// The path of the agent's Unix domain socket, used instead of host and port. Requests there
    /// are plain HTTP with the host `localhost`.
    pub fn socket(&self) -> Option<&str> {
        self.socket.as_deref()
    }

    /// The URL of a request with this [target](crate::sans_io::Request::target).
    pub fn join(&self, target: &str) -> String {
        match self.socket {
            Some(_) => format!("http://{LOCALHOST}{target}"),
            None => format!("{self}{target}"),
        }
    }

    /// The same address over TLS.
    ///
    /// # Errors
    /// [`InvalidUrl::SocketOverTls`] if it is a Unix socket.
    pub fn with_https(mut self) -> Result<Self, InvalidUrl> {
        if self.socket.is_some() {
            return Err(InvalidUrl::SocketOverTls);
        }
        self.https = true;
        Ok(self)
    }

    /// The same address with another host name, which must be a DNS name.
    ///
    /// # Errors
    /// [`InvalidUrl::Host`] if it is not, or if the address is a Unix socket.
    pub fn with_host(mut self, name: &str) -> Result<Self, InvalidUrl> {
        let is_address = name.starts_with('[') || name.parse::<core::net::IpAddr>().is_ok();
        if self.socket.is_some() || is_address || !is_host(name) {
            return Err(InvalidUrl::Host);
        }
        name.clone_into(&mut self.host);
        Ok(self)
    }
}

impl FromStr for AgentUrl {
    type Err = InvalidUrl;

    /// Reads `http://host:port/path`, `https://…`, `host:port`, which means `http`, or `unix://`
    /// with the path of a socket.
    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        if let Some(path) = socket_path(text) {
            return at_socket(path);
        }
        if text.chars().any(|c| !c.is_ascii_graphic()) {
            return Err(InvalidUrl::Character);
        }
        let (https, rest) = match text.split_once("://") {
            None => (false, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) => return Err(InvalidUrl::Scheme),
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(InvalidUrl::Credentials);
        }
        if path.contains('#') {
            return Err(InvalidUrl::Fragment);
        }
        if path.contains('?') {
            return Err(InvalidUrl::Query);
        }
        let (host, port) = split_port(authority)?;
        if !is_host(host) {
            return Err(InvalidUrl::Host);
        }
        let path = path.trim_end_matches('/');
        if !is_path(path) {
            return Err(InvalidUrl::Path);
        }
        Ok(Self {
            https,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            socket: None,
        })
    }
}

impl fmt::Display for AgentUrl {
    /// The URL without a trailing slash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.socket {
            return write!(f, "{UNIX}{path}");
        }
        f.write_str(if self.https { "https://" } else { "http://" })?;
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

/// Why an address is not that of an agent. The address is not shown, since it may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// Something other than `http://`, `https://` or `unix://`.
    #[error("the agent's URL has a scheme other than http, https and unix")]
    Scheme,
    /// The path after `unix://` is missing, has a control character, or has more than 107 bytes,
    /// which no system opens.
    #[error(
        "the agent's URL has no socket path, or one that has over 107 bytes or a control character"
    )]
    Socket,
    /// TLS was requested for a Unix socket.
    #[error("the agent's URL is a Unix socket, which is used without TLS")]
    SocketOverTls,
    /// No host, or one that is neither a DNS name nor an IP address.
    #[error("the agent's URL has no valid host")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the agent's URL has no valid port")]
    Port,
    /// `user:password@host`. Consul uses an ACL token instead, which is set on the semaphore.
    #[error("the agent's URL contains credentials")]
    Credentials,
    /// The path has an empty or dot segment, or characters that need percent-encoding.
    #[error("the agent's URL has a path that can't be sent as it is")]
    Path,
    /// `?…`, which can't be joined with the query of a request.
    #[error("the agent's URL has a query")]
    Query,
    /// `#…`, which is never sent.
    #[error("the agent's URL has a fragment")]
    Fragment,
    /// White space, a control character, or a character outside ASCII. An international host
    /// name is written in its `xn--` form.
    #[error("the agent's URL has characters that need encoding")]
    Character,
}

/// The part after `unix://`.
fn socket_path(text: &str) -> Option<&str> {
    let (scheme, path) = text.split_at_checked(UNIX.len())?;
    scheme.eq_ignore_ascii_case(UNIX).then_some(path)
}

fn at_socket(path: &str) -> Result<AgentUrl, InvalidUrl> {
    // `sun_path` of Linux has 108 bytes, including the NUL at its end; see unix(7).
    if !(1..108).contains(&path.len()) || path.chars().any(char::is_control) {
        return Err(InvalidUrl::Socket);
    }
    Ok(AgentUrl {
        https: false,
        host: LOCALHOST.to_owned(),
        port: None,
        path: String::new(),
        socket: Some(path.to_owned()),
    })
}

const UNIX: &str = "unix://";

const LOCALHOST: &str = "localhost";

fn split_port(authority: &str) -> Result<(&str, Option<u16>), InvalidUrl> {
    if authority.starts_with('[') && !authority.contains(']') {
        return Err(InvalidUrl::Host);
    }
    // Colons in the brackets of an IPv6 address don't begin the port.
    let after_host = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[after_host..].find(':') {
        None => Ok((authority, None)),
        Some(colon) => {
            let (host, port) = authority.split_at(after_host + colon);
            let digits = &port[1..];
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            match digits.parse() {
                Ok(port) if is_number && port != 0 => Ok((host, Some(port))),
                _ => Err(InvalidUrl::Port),
            }
        }
    }
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        })
}

/// Whether a path is empty, or a sequence of `/segment` that no HTTP client rewrites.
fn is_path(path: &str) -> bool {
    let Some(segments) = path.strip_prefix('/') else {
        return path.is_empty();
    };
    segments.split('/').all(|segment| {
        !matches!(
            segment.to_ascii_lowercase().replace("%2e", ".").as_str(),
            "" | "." | ".."
        ) && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:@".contains(&byte))
    })
}
