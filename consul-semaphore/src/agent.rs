//! Consul's address and token, from Consul's flags and environment.

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use semaphore_core::adapter::{
    BlockOn as _, InvalidEnvironment, Request, Response, TokenProvider, Transport as _,
};
use serde::{Deserialize, Serialize};
use transport_ureq::{
    BuildError, RequestError, Scope, Token, TransportBuilder, UreqTransport, token_file,
};

use crate::failure::Failure;

/// Consul's own flags. Each takes precedence over its variable.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[command(next_help_heading = "Consul")]
pub(crate) struct AgentOptions {
    #[arg(
        help = "The agent: host:port, a URL, or unix:///path [env: CONSUL_HTTP_ADDR] [default: 127.0.0.1:8500]"
    )]
    #[arg(long, global = true, value_name = "ADDRESS")]
    http_addr: Option<String>,
    #[arg(
        help = "A file with the ACL token; it may be replaced while the program runs [env: CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN]"
    )]
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Refused: everybody could read it in the list of processes
    #[arg(long, global = true, hide = true, value_name = "TOKEN")]
    token: Option<String>,
    #[arg(help = "A file with the authorities to trust [env: CONSUL_CACERT]")]
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<String>,
    #[arg(help = "A folder of such files [env: CONSUL_CAPATH]")]
    #[arg(long, global = true, value_name = "FOLDER")]
    ca_path: Option<String>,
    #[arg(help = "The client's certificate [env: CONSUL_CLIENT_CERT]")]
    #[arg(long, global = true, value_name = "FILE")]
    client_cert: Option<String>,
    #[arg(help = "Its key [env: CONSUL_CLIENT_KEY]")]
    #[arg(long, global = true, value_name = "FILE")]
    client_key: Option<String>,
    #[arg(help = "The name in the agent's certificate [env: CONSUL_TLS_SERVER_NAME]")]
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// The datacenter [default: the agent's]
    #[arg(long, global = true, value_name = "NAME")]
    datacenter: Option<String>,
    #[arg(help = "The namespace, Consul Enterprise [env: CONSUL_NAMESPACE]")]
    #[arg(long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    #[arg(help = "The admin partition, Consul Enterprise [env: CONSUL_PARTITION]")]
    #[arg(long, global = true, value_name = "NAME")]
    partition: Option<String>,
    /// Accepted without effect: decisions are read from the leader
    #[arg(long, global = true, hide = true)]
    stale: bool,
    /// Accepted on the command line only in the mode that replaces `consul lock`.
    #[arg(skip)]
    pub(crate) takes_token: bool,
}

/// A connection to Consul.
#[derive(Clone)]
pub(crate) struct Agent {
    /// With the token, if there is one.
    pub(crate) transport: UreqTransport,
    pub(crate) scope: Scope,
    /// What it was made from.
    pub(crate) options: AgentOptions,
}

impl AgentOptions {
    /// The flag that replaces a variable, with its name.
    fn flag(&self, variable: &str) -> Option<(&'static str, &String)> {
        let (name, given) = match variable {
            "CONSUL_HTTP_ADDR" => ("--http-addr", &self.http_addr),
            "CONSUL_CACERT" => ("--ca-file", &self.ca_file),
            "CONSUL_CAPATH" => ("--ca-path", &self.ca_path),
            "CONSUL_CLIENT_CERT" => ("--client-cert", &self.client_cert),
            "CONSUL_CLIENT_KEY" => ("--client-key", &self.client_key),
            "CONSUL_TLS_SERVER_NAME" => ("--tls-server-name", &self.tls_server_name),
            "CONSUL_NAMESPACE" => ("--namespace", &self.namespace),
            "CONSUL_PARTITION" => ("--partition", &self.partition),
            _ => return None,
        };
        given.as_ref().map(|given| (name, given))
    }

    /// What the flag says that replaces a variable, or else the variable.
    fn lookup(&self, variable: &str) -> Option<OsString> {
        match (self.flag(variable), variable) {
            (Some((_, given)), _) => Some(given.into()),
            (None, "CONSUL_HTTP_TOKEN_FILE" | "CONSUL_HTTP_TOKEN") if self.names_token() => None,
            (None, _) => env::var_os(variable),
        }
    }

    /// What the user wrote is named as they wrote it: by the flag, if it replaces a variable.
    fn by_flags(&self, error: BuildError) -> Failure {
        let name = |variable| self.flag(variable).map(|(name, _)| name);
        match error {
            BuildError::File { variable, .. } => match name(variable) {
                Some(flag) => file_of(flag, error),
                None => Failure::Connection(error),
            },
            BuildError::Environment(InvalidEnvironment::Address(error))
                if self.http_addr.is_some() =>
            {
                Failure::usage(format!(
                    "--http-addr is not the address of an agent: {error}"
                ))
            }
            BuildError::Environment(InvalidEnvironment::Name {
                variable,
                ref source,
            }) => match name(variable) {
                Some(flag) => Failure::usage(format!("{flag} is not a name: {source}")),
                None => Failure::Connection(error),
            },
            error => Failure::Connection(error),
        }
    }

    /// Whether a flag replaces the token of the environment.
    fn names_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    /// The token of a flag.
    fn given_token(&self) -> Result<Option<TokenProvider>, Failure> {
        if let Some(token) = &self.token {
            if !self.takes_token {
                return Err(Failure::usage(
                    "a token on the command line can be read by everybody in the list of processes: use --token-file, \
                     CONSUL_HTTP_TOKEN_FILE or CONSUL_HTTP_TOKEN",
                ));
            }
            return Ok(Some(TokenProvider::new(Token::new(token.clone())?)));
        }
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let file = token_file(path.clone());
        let file = file.map_err(|error| file_of("--token-file", error))?;
        Ok(Some(TokenProvider::new(file)))
    }

    pub(crate) fn connect(&self) -> Result<Agent, Failure> {
        let by_flags = |error| self.by_flags(error);
        let builder = TransportBuilder::from_lookup(|variable| self.lookup(variable));
        let mut builder = builder.map_err(by_flags)?;
        if let Some(tokens) = self.given_token()? {
            builder = builder.token_source(tokens);
        }
        let transport = builder.build().map_err(by_flags)?;
        let mut scope = Scope::new();
        if let Some(name) = &self.datacenter {
            scope = scope.with_datacenter(name.clone())?;
        }
        let scope = scope.or(transport.defaults());
        Ok(Agent {
            transport,
            scope,
            options: self.clone(),
        })
    }
}

/// The error about a file, which this flag names.
fn file_of(flag: &'static str, error: BuildError) -> Failure {
    Failure::Connection(match error {
        BuildError::File { path, source, .. } => BuildError::File {
            variable: flag,
            path,
            source,
        },
        error => error,
    })
}

impl Agent {
    /// What this program's own requests carry.
    pub(crate) fn scope(&self) -> Scope {
        let scope = self.scope.clone();
        match self.token() {
            Some(token) => scope.with_token(token),
            None => scope,
        }
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.transport.token()
    }

    pub(crate) async fn send(&self, request: Request) -> Result<Response, RequestError> {
        let sent = self.transport.send(request.clone()).await;
        match sent {
            Ok(answer) => Ok(answer.answering(&request)),
            Err(error) => Err(RequestError::Transport(error.answering(&request))),
        }
    }

    /// This text with the agent's address: the beginning of error texts.
    pub(crate) fn place(&self, what: impl Display) -> String {
        match self.transport.address() {
            Some(address) => format!("{what} at {address}"),
            None => what.to_string(),
        }
    }

    /// Like [`Self::wait`], but an error names its subject.
    pub(crate) fn wait_for<T: Send, E: Into<Failure> + Send>(
        &self,
        what: impl Display,
        future: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, Failure> {
        let waited = self.wait(future);
        waited.map_err(|failure| failure.about(|| self.place(what)))
    }

    /// Blocks this thread until the future ends.
    pub(crate) fn wait<T: Send, E: Into<Failure> + Send>(
        &self,
        future: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, Failure> {
        let mut output = None;
        self.transport
            .block_on(Box::pin(async { output = Some(future.await) }));
        output.map_or(Err(Failure::Ended), |output| output.map_err(Into::into))
    }
}
