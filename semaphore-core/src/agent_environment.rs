//! Reads the `CONSUL_*` variables without I/O: the caller provides the environment and the files.

use core::fmt;
use std::ffi::OsString;
use std::io;

use crate::agent_url::AgentUrl;
use crate::basic_auth::BasicAuth;
use crate::build_error::{BuildError, InvalidEnvironment};
use crate::input::{InvalidInput, Scope};
use crate::reloaded::Files;
use crate::token::Token;
use crate::token_source::{TokenFile, TokenProvider};

/// What the environment says about the agent, in the variables of the `consul` command.
///
/// `Debug` does not show the password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentEnvironment {
    /// `CONSUL_HTTP_ADDR`, by default `http://127.0.0.1:8500`. TLS is used if the address says
    /// `https://` or `CONSUL_HTTP_SSL` is true.
    pub url: AgentUrl,
    /// `CONSUL_HTTP_AUTH`: a user and a password, separated by the first colon.
    pub basic_auth: Option<BasicAuth>,
    /// `CONSUL_NAMESPACE` and `CONSUL_PARTITION` (Consul Enterprise). Every request carries them
    /// unless a handle sets others.
    pub scope: Scope,
    /// `CONSUL_CACERT`: the path of a PEM file with the authorities to trust.
    pub ca_cert: Option<String>,
    /// `CONSUL_CAPATH`: the path of a folder of such files. It is used only without
    /// `CONSUL_CACERT`. See [`read_authorities`](crate::adapter::read_authorities).
    pub ca_path: Option<String>,
    /// `CONSUL_CLIENT_CERT`: the path of a PEM file.
    pub client_cert: Option<String>,
    /// `CONSUL_CLIENT_KEY`: the path of a PEM file.
    pub client_key: Option<String>,
    /// `CONSUL_TLS_SERVER_NAME`: the name that the agent's certificate must have. A port is
    /// removed.
    pub tls_server_name: Option<String>,
    /// Whether the agent's certificate is verified. Only `CONSUL_HTTP_SSL_VERIFY=false` turns that
    /// off.
    pub verifies: bool,
}

impl AgentEnvironment {
    /// Reads the variables through `lookup`. An empty variable counts as unset. `CONSUL_GRPC_*` are
    /// ignored.
    ///
    /// # Errors
    /// [`InvalidEnvironment`], with the variable that can't be understood or is impossible. The
    /// `consul` command takes a misspelt truth value as false; here it is an error.
    pub fn read<S: Into<OsString>>(
        lookup: impl Fn(&str) -> Option<S>,
    ) -> Result<Self, InvalidEnvironment> {
        let get = |variable| get(&lookup, variable);
        let address = get("CONSUL_HTTP_ADDR")?;
        let address = address.as_deref().unwrap_or(DEFAULT_AGENT);
        let mut url: AgentUrl = address.parse().map_err(InvalidEnvironment::Address)?;
        // `http://` in the address does not turn TLS off if another variable turns it on.
        if let Some(value) = get("CONSUL_HTTP_SSL")?
            && parse_bool(&value).ok_or(InvalidEnvironment::Ssl)?
        {
            url = url.with_https().map_err(InvalidEnvironment::SslOnSocket)?;
        }
        let verifies = match get("CONSUL_HTTP_SSL_VERIFY")? {
            Some(value) => parse_bool(&value).ok_or(InvalidEnvironment::SslVerify)?,
            None => true,
        };
        let basic_auth = get("CONSUL_HTTP_AUTH")?.map(|text| BasicAuth::parse(&text));
        let mut scope = Scope::new();
        if let Some(name) = get("CONSUL_NAMESPACE")? {
            let set = scope.with_namespace(name);
            scope = set.map_err(|source| named("CONSUL_NAMESPACE", source))?;
        }
        if let Some(name) = get("CONSUL_PARTITION")? {
            let set = scope.with_partition(name);
            scope = set.map_err(|source| named("CONSUL_PARTITION", source))?;
        }
        Ok(Self {
            url,
            basic_auth: basic_auth.transpose().map_err(InvalidEnvironment::Auth)?,
            scope,
            ca_cert: get("CONSUL_CACERT")?,
            ca_path: get("CONSUL_CAPATH")?,
            client_cert: get("CONSUL_CLIENT_CERT")?,
            client_key: get("CONSUL_CLIENT_KEY")?,
            tls_server_name: get("CONSUL_TLS_SERVER_NAME")?.map(without_port),
            verifies,
        })
    }

    /// The certificates in the files that the variables name, read through `read`. It does not read
    /// the folder [`ca_path`](Self::ca_path).
    ///
    /// # Errors
    /// [`BuildError::File`] if a file can't be read, [`BuildError::ClientCertificateIncomplete`] if
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

    /// The source of the token that the `consul` command would send: that in the file of
    /// `CONSUL_HTTP_TOKEN_FILE`, else `CONSUL_HTTP_TOKEN`. `None` without both variables. The file
    /// is followed, see [`TokenFile`]; as long as it is empty, the other variable counts.
    ///
    /// # Errors
    /// [`BuildError::File`] if the file can't be read. [`BuildError::Environment`] if the token
    /// can't be sent in a header. The token is not shown.
    pub fn tokens<S: Into<OsString>>(
        lookup: impl Fn(&str) -> Option<S>,
        files: impl Files + 'static,
    ) -> Result<Option<TokenProvider>, BuildError> {
        let get = |variable| get(&lookup, variable).map_err(BuildError::Environment);
        let of_variable = || {
            let token = get("CONSUL_HTTP_TOKEN")?.map(Token::new).transpose();
            token.map_err(|error| BuildError::Environment(InvalidEnvironment::Token(error)))
        };
        match get(TOKEN_FILE)? {
            Some(path) => {
                let file = TokenFile::or_else(TOKEN_FILE, path.into(), files, |_| of_variable())?;
                Ok(Some(TokenProvider::new(file)))
            }
            None => Ok(of_variable()?.map(TokenProvider::new)),
        }
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
    /// Shows which certificates there are, never a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authorities", &self.authorities.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
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

/// The value of a variable, or `None` if it is unset or empty.
fn get<S: Into<OsString>>(
    lookup: impl Fn(&str) -> Option<S>,
    variable: &'static str,
) -> Result<Option<String>, InvalidEnvironment> {
    let value = lookup(variable).map(Into::into);
    let value = value.map(OsString::into_string).transpose();
    // The value is not shown: it may be a secret.
    let value = value.map_err(|_| InvalidEnvironment::NotUnicode { variable })?;
    Ok(value.filter(|value| !value.is_empty()))
}

fn named(variable: &'static str, source: InvalidInput) -> InvalidEnvironment {
    InvalidEnvironment::Name { variable, source }
}

fn without_port(name: String) -> String {
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => name,
    }
}

/// The spellings that the `consul` command accepts.
fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
