//! Where the agent is: its URL, and the `CONSUL_*` variables that name it, both read without I/O.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;
use std::io;

use crate::build_error::BuildError;
use crate::error::InvalidInput;
use crate::token::Token;

/// The address of a Consul agent: scheme, host, port, and the path it is served under, if any.
///
/// It never holds credentials, a query or a fragment, so it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentUrl {
    https: bool,
    host: String,
    port: Option<u16>,
    path: String,
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

    /// The port, the scheme's own (80 or 443) when the address names none.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// The URL of a request, given its [target](crate::Request::target).
    pub fn join(&self, target: &str) -> String {
        format!("{self}{target}")
    }

    /// The same address over TLS.
    #[must_use]
    pub fn with_https(mut self) -> Self {
        self.https = true;
        self
    }

    /// The same address under another host name, which must be a DNS name.
    ///
    /// # Errors
    /// [`InvalidUrl::Host`] when it is not one.
    pub fn with_host(mut self, name: &str) -> Result<Self, InvalidUrl> {
        let is_address = name.starts_with('[') || name.parse::<core::net::IpAddr>().is_ok();
        if is_address || !is_host(name) {
            return Err(InvalidUrl::Host);
        }
        name.clone_into(&mut self.host);
        Ok(self)
    }
}

impl FromStr for AgentUrl {
    type Err = InvalidUrl;

    /// Reads `http://host:port/path`, `https://…`, or `host:port`, which means `http`.
    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
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
        })
    }
}

impl fmt::Display for AgentUrl {
    /// The URL without a trailing slash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.https { "https://" } else { "http://" })?;
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

/// Why an address is none of an agent. The address is not shown, since it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// Something other than `http://` or `https://`. Sockets of the file system (`unix://`) are
    /// not supported.
    #[error("the agent's URL has a scheme other than http and https")]
    Scheme,
    /// No host, or one that is neither a DNS name nor an IP address.
    #[error("the agent's URL has no valid host")]
    Host,
    /// The port is not a number from 1 to 65535.
    #[error("the agent's URL has no valid port")]
    Port,
    /// `user:password@host`. Consul takes an ACL token instead, which is set on the semaphore.
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

/// What the environment says of the agent, in the variables of the `consul` command.
///
/// `Debug` does not show the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentEnvironment {
    /// `CONSUL_HTTP_ADDR`, by default `http://127.0.0.1:8500`, over TLS when `CONSUL_HTTP_SSL` is
    /// true.
    pub url: AgentUrl,
    /// `CONSUL_CACERT`: the path of a PEM file with the authorities to trust.
    pub ca_cert: Option<String>,
    /// `CONSUL_CLIENT_CERT`: the path of a PEM file.
    pub client_cert: Option<String>,
    /// `CONSUL_CLIENT_KEY`: the path of a PEM file.
    pub client_key: Option<String>,
    /// `CONSUL_TLS_SERVER_NAME`: the name that the agent's certificate must bear.
    pub tls_server_name: Option<String>,
}

impl AgentEnvironment {
    /// Reads the variables through `lookup`. An empty variable counts as unset.
    ///
    /// # Errors
    /// [`InvalidEnvironment`] naming the variable that can't be understood.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidEnvironment> {
        let get = |name| lookup(name).filter(|value| !value.is_empty());
        let mut url: AgentUrl = match get("CONSUL_HTTP_ADDR") {
            Some(address) => address.parse().map_err(InvalidEnvironment::Address)?,
            None => DEFAULT_AGENT.parse().map_err(InvalidEnvironment::Address)?,
        };
        // An address that says `http://` does not turn off the TLS that was asked for.
        if let Some(value) = get("CONSUL_HTTP_SSL")
            && parse_bool(&value).ok_or(InvalidEnvironment::Ssl)?
        {
            url = url.with_https();
        }
        Ok(Self {
            url,
            ca_cert: get("CONSUL_CACERT"),
            client_cert: get("CONSUL_CLIENT_CERT"),
            client_key: get("CONSUL_CLIENT_KEY"),
            tls_server_name: get("CONSUL_TLS_SERVER_NAME"),
        })
    }

    /// The certificates in the files that the variables name, read through `read`.
    ///
    /// # Errors
    /// [`BuildError::File`] when one can't be read, [`BuildError::ClientCertificateIncomplete`] when
    /// the client's certificate or its key is missing.
    pub fn certificates(
        &self,
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Certificates, BuildError> {
        let read_pem = |variable, path: &String| read_file(variable, path, &read);
        let client = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => {
                let cert = read_pem("CONSUL_CLIENT_CERT", cert)?;
                Some((cert, read_pem("CONSUL_CLIENT_KEY", key)?))
            }
            (None, None) => None,
            _ => return Err(BuildError::ClientCertificateIncomplete),
        };
        let authorities = self.ca_cert.as_ref();
        let authorities = authorities.map(|path| read_pem("CONSUL_CACERT", path));
        Ok(Certificates {
            authorities: authorities.transpose()?,
            client,
        })
    }

    /// The token that the `consul` command would send: the content of the file that
    /// `CONSUL_HTTP_TOKEN_FILE` names, else `CONSUL_HTTP_TOKEN`, else none.
    ///
    /// # Errors
    /// [`BuildError::File`] when the file can't be read, [`BuildError::Environment`] when what was
    /// found can't be sent in a header. The token is not shown.
    pub fn token(
        lookup: impl Fn(&str) -> Option<String>,
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Option<Token>, BuildError> {
        let get = |name| lookup(name).filter(|value| !value.is_empty());
        let content = get(TOKEN_FILE)
            .map(|path| read_file(TOKEN_FILE, &path, read))
            .transpose()?;
        content
            .map(|content| String::from_utf8_lossy(&content).trim().to_owned())
            .filter(|token| !token.is_empty())
            .or_else(|| get("CONSUL_HTTP_TOKEN"))
            .map(Token::new)
            .transpose()
            .map_err(|error| BuildError::Environment(InvalidEnvironment::Token(error)))
    }
}

/// The certificates that the environment names, in PEM.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificates {
    /// The authorities to trust.
    pub authorities: Option<Vec<u8>>,
    /// The client's certificate, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    /// Shows what there is, never a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authorities", &self.authorities.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

/// Which variable of the environment can't be understood. Its value is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvironment {
    /// `CONSUL_HTTP_ADDR` is not the address of an agent.
    #[error("CONSUL_HTTP_ADDR is not the address of an agent")]
    Address(#[source] InvalidUrl),
    /// `CONSUL_HTTP_SSL` is neither true nor false.
    #[error("CONSUL_HTTP_SSL is neither true nor false")]
    Ssl,
    /// `CONSUL_HTTP_TOKEN` can't be sent.
    #[error("CONSUL_HTTP_TOKEN is not a token")]
    Token(#[source] InvalidInput),
}

const TOKEN_FILE: &str = "CONSUL_HTTP_TOKEN_FILE";

const DEFAULT_AGENT: &str = "http://127.0.0.1:8500";

fn read_file(
    variable: &'static str,
    path: &str,
    read: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, BuildError> {
    read(path).map_err(|source| BuildError::File {
        variable,
        path: path.to_owned(),
        source,
    })
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), InvalidUrl> {
    if authority.starts_with('[') && !authority.contains(']') {
        return Err(InvalidUrl::Host);
    }
    // The colons inside the brackets of an IPv6 address are not the port's.
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

/// Whether a path is empty or a sequence of `/segment` that no HTTP client rewrites.
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

/// The spellings that the `consul` command understands.
fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
