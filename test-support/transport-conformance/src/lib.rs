//! What every HTTP transport of the semaphore must do, as tests over real sockets.
//!
//! Each module is one behaviour. An adapter says once how it is built, by implementing [`Backend`],
//! and gets all behaviours as separate tests:
//!
//! ```text
//! transport_conformance::tests!(MyBackend);
//! ```
//!
//! The adapter tests in a file of its own what the [logs](secrecy) must not say.
//!
//! A test plays the agent with a [`Server`](server::Server) that follows a script, and says what
//! must have arrived there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "every public function is a test, named by what it shows"
)]

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semaphore_core::adapter::{BlockOn, Method, Request, Response, Transport, TransportError};

pub mod addresses;
pub mod broken_answers;
pub mod cancellation;
pub mod environment;
pub mod hostile_bodies;
pub mod hostile_heads;
pub mod keep_alive;
pub mod logs;
pub mod long_polls;
pub mod own_client;
pub mod redirects;
pub mod requests;
pub mod rotation;
pub mod runtime;
pub mod secrecy;
pub mod secret;
pub mod server;
pub mod several_servers;
pub mod sockets;
pub mod texts;
pub mod timeouts;
pub mod tls;
pub mod tokens;
pub mod unreachable;

/// How an adapter is built.
pub trait Backend {
    type Adapter: Transport + BlockOn + Clone + std::fmt::Debug + 'static;

    /// How many connections a sequence of requests may open. It is one, except for a client that
    /// opens another while the last one is on its way back into its pool.
    const CONNECTIONS_OF_A_SEQUENCE: usize = 1;

    /// Builds the adapter with these options.
    fn build(&self, options: Options) -> Result<Self::Adapter, BuildError>;

    /// Builds the adapter from the process's environment.
    fn build_from_env(&self) -> Result<Self::Adapter, BuildError>;

    /// An adapter with the default options.
    fn to(&self, url: impl Into<String>) -> Self::Adapter {
        self.build(Options::to(url)).unwrap()
    }
}

pub type BuildError = Box<dyn StdError + Send + Sync>;

/// The options that every adapter has. `None` leaves the adapter's default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub url: String,
    pub max_body: Option<usize>,
    pub connect_timeout: Option<Duration>,
    pub ca_cert: Option<String>,
    pub ca_cert_file: Option<PathBuf>,
    /// The certificate and its key.
    pub client_cert: Option<(String, String)>,
    pub client_cert_files: Option<(PathBuf, PathBuf)>,
    pub tls_server_name: Option<String>,
    /// A folder of authorities.
    pub ca_path: Option<PathBuf>,
    pub accept_any_certificate: bool,
    /// A user and a password.
    pub basic_auth: Option<(&'static str, &'static str)>,
    /// A client that the user builds, with this `User-Agent`.
    pub own_client: Option<&'static str>,
    /// Resolves names instead of the system. Only an adapter's own unit tests can set it.
    pub lookup: Option<Lookup>,
}

/// The addresses of every name, for tests.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn() -> Vec<IpAddr> + Send + Sync>);

impl Lookup {
    /// Each new connection calls `addresses`.
    pub fn new(addresses: impl Fn() -> Vec<IpAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(addresses))
    }

    /// The addresses with this port.
    pub fn addresses(&self, port: u16) -> Vec<SocketAddr> {
        let found = (self.0)().into_iter();
        found.map(|ip| SocketAddr::new(ip, port)).collect()
    }
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Lookup {}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Options {
    pub fn to(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }
}

/// Turns the behaviours for names with several servers into tests of the calling crate. They need
/// [`Options::lookup`], which only the crate's own unit tests can set.
#[macro_export]
macro_rules! tests_of_several_servers {
    ($backend:expr) => {
        $crate::tests! { @ $backend;
            several_servers:
                the_one_server_that_serves_is_found,
                several_silent_servers_are_passed_by,
                a_server_that_failed_is_tried_last,
                a_server_that_falls_silent_is_left,
                an_open_connection_to_a_server_that_failed_is_not_used,
                a_server_without_a_leader_for_long_is_left,
                each_new_connection_resolves_the_name_anew,
                a_server_with_a_certificate_that_is_not_trusted_is_passed_by,
                a_server_that_refuses_the_clients_certificate_is_passed_by,
                a_server_that_never_ends_its_handshake_is_passed_by;
        }
    };
}

/// Turns all behaviours into tests of the calling crate. The expression gives the backend.
#[macro_export]
macro_rules! tests {
    ($backend:expr) => {
        $crate::tests! { @ $backend;
            addresses: each_bad_address_is_refused_with_its_reason;
            broken_answers:
                a_body_of_exactly_the_limit_is_read,
                a_body_over_the_limit_is_refused_without_reading_it_all,
                an_announced_body_over_the_limit_is_refused,
                a_body_shorter_than_its_content_length_is_a_bad_answer,
                a_chunked_body_without_its_end_is_a_bad_answer,
                bytes_after_the_body_do_not_become_the_next_answer,
                a_content_length_that_is_no_number_is_a_bad_answer,
                an_answer_that_is_not_http_is_a_bad_answer,
                a_connection_closed_before_the_answer_leaves_the_outcome_unknown,
                a_connection_closed_amid_the_headers_leaves_the_outcome_unknown,
                html_from_a_proxy_is_an_answer_like_any_other;
            cancellation:
                dropping_the_future_closes_the_connection,
                dropping_one_future_leaves_the_others_alone,
                the_next_request_works_after_one_was_given_up,
                a_future_dropped_before_it_is_polled_sends_nothing;
            environment:
                the_variables_of_the_consul_command_are_read,
                a_missing_file_is_named_with_its_variable,
                a_certificate_without_its_key_is_refused,
                an_address_that_is_none_is_refused,
                a_socket_and_a_password_of_the_environment_are_used,
                a_folder_of_authorities_is_trusted_and_https_stays,
                a_certificate_is_not_verified_when_the_environment_says_so,
                a_misspelt_word_does_not_turn_verification_off,
                a_proxy_of_the_environment_is_not_used;
            hostile_bodies:
                a_connection_closed_at_any_byte_of_the_answer_is_no_answer,
                a_connection_closed_before_the_request_is_read_is_no_answer,
                an_answer_before_the_request_is_read_holds_nothing_up,
                lengths_that_disagree_are_a_bad_answer,
                chunks_that_are_none_are_a_bad_answer,
                what_stands_around_chunks_without_end_does_not_outlive_the_timeout,
                a_body_without_a_length_is_bounded,
                a_body_without_a_length_that_is_reset_is_no_answer,
                an_empty_answer_with_a_body_does_not_begin_the_next,
                a_packed_body_is_not_unpacked;
            hostile_heads:
                a_head_that_is_none_is_a_bad_answer,
                headers_without_end_are_a_bad_answer,
                headers_that_trickle_do_not_outlive_the_timeout,
                interim_answers_come_before_the_answer,
                interim_answers_without_end_do_not_outlive_the_timeout,
                an_upgrade_that_nobody_asked_for_is_no_success;
            keep_alive:
                sequential_requests_share_a_connection,
                sequential_long_polls_share_a_connection,
                a_connection_that_the_agent_wants_closed_is_not_used_again,
                a_request_that_dies_on_a_kept_connection_is_not_sent_twice;
            long_polls:
                as_many_long_polls_as_there_may_be_do_not_hold_up_a_short_request,
                a_long_poll_without_a_connection_is_read_and_tells_what_is_new;
            own_client:
                a_client_of_the_users_own_sends_the_requests,
                a_client_of_the_users_own_takes_no_options_of_the_connection;
            redirects:
                a_redirect_of_a_read_is_the_answer,
                a_redirect_of_a_write_is_the_answer;
            requests:
                method_target_and_body_arrive_as_described,
                an_empty_put_has_a_content_length,
                a_read_has_no_body,
                a_path_in_the_url_comes_before_the_target,
                a_host_name_is_resolved,
                an_ipv6_address_is_spoken_to,
                the_token_travels_in_its_header,
                a_user_and_a_password_travel_beside_the_token,
                a_user_and_a_password_that_cant_be_sent_are_refused_and_not_shown,
                each_request_on_a_kept_connection_has_its_own_token,
                the_token_is_in_no_error_and_no_debug_output,
                any_status_is_an_answer,
                the_headers_of_the_answer_are_handed_over;
            rotation:
                replaced_certificates_are_used_for_new_connections,
                open_connections_go_on_with_the_certificates_they_were_opened_with,
                who_is_trusted_no_longer_gets_no_new_connection,
                files_that_cant_be_used_leave_the_last_ones_in_use,
                a_folder_of_authorities_is_read_again,
                certificates_of_the_environment_are_replaced,
                a_file_that_cant_be_used_to_begin_with_is_refused;
            runtime:
                time_goes_on_while_sleeping,
                a_spawned_task_runs_while_nobody_waits_for_it,
                block_on_returns_when_the_future_ends;
            sockets:
                a_request_goes_through_a_socket_of_the_file_system,
                bodies_larger_than_any_buffer_go_through_a_socket,
                sequential_requests_share_a_connection_to_a_socket,
                dropping_the_future_closes_the_connection_to_a_socket,
                a_silent_agent_on_a_socket_ends_in_a_timeout,
                an_agent_on_a_socket_that_reads_nothing_ends_in_a_timeout,
                an_answer_that_trickles_from_a_socket_does_not_outlive_the_timeout,
                an_answer_from_a_socket_that_is_cut_is_a_bad_answer,
                a_connection_to_a_socket_that_was_closed_meanwhile_is_not_used,
                a_socket_on_which_nobody_listens_was_not_applied,
                a_socket_without_room_was_not_applied;
            timeouts:
                a_silent_agent_ends_in_a_timeout,
                an_answer_that_stalls_ends_in_a_timeout,
                an_answer_that_trickles_does_not_outlive_the_timeout;
            tls:
                an_authority_of_the_users_own_is_trusted,
                an_unknown_authority_is_refused,
                a_certificate_for_another_host_is_refused,
                an_expired_certificate_is_refused,
                a_certificate_that_is_not_yet_valid_is_refused,
                a_certificate_without_any_name_is_refused,
                the_server_name_replaces_the_host_in_the_check,
                a_client_certificate_is_shown_when_asked_for,
                a_missing_client_certificate_is_a_misconfiguration,
                a_client_certificate_that_has_expired_is_a_misconfiguration,
                a_client_certificate_of_a_stranger_is_a_misconfiguration,
                an_agent_that_speaks_no_tls_is_a_misconfiguration,
                a_handshake_cut_short_was_not_applied,
                a_handshake_without_end_ends_with_the_timeout,
                an_encrypted_body_that_is_cut_is_a_bad_answer,
                sequential_requests_share_a_tls_connection,
                dropping_the_future_closes_the_tls_connection,
                certificates_and_keys_that_are_none_are_refused_at_once,
                all_authorities_of_a_folder_are_trusted,
                a_file_of_the_folder_without_a_certificate_is_named,
                any_certificate_is_taken_when_that_is_asked_for;
            texts:
                an_address_where_nobody_listens_is_named_with_the_reason,
                https_where_plain_http_is_spoken_says_so,
                plain_http_where_https_is_spoken_says_so,
                a_path_that_is_not_consuls_says_so;
            tokens:
                the_token_of_the_environment_is_sent_unless_a_request_has_its_own,
                without_a_token_in_the_environment_none_is_sent,
                the_token_file_comes_before_the_variable_and_is_trimmed,
                an_empty_token_file_leaves_the_variable_until_it_has_a_token,
                a_missing_token_file_is_named_with_its_variable,
                a_token_that_can_t_be_sent_is_refused_and_not_shown,
                a_token_file_is_followed_and_read_again_at_a_refusal,
                a_handle_sends_its_own_token_and_else_that_of_the_environment;
            unreachable:
                a_refused_connection_was_not_applied,
                an_unknown_host_was_not_applied;
        }
    };
    (@ $backend:expr; $($behaviour:ident: $($test:ident),+;)+) => {
        $(mod $behaviour {
            use super::*;
            $(#[test]
            fn $test() {
                $crate::$behaviour::$test(&$backend);
            })+
        })+
    };
}

pub(crate) fn get(target: &str) -> Request {
    Request::new(Method::Get, target)
}

pub(crate) fn put(target: &str, body: &str) -> Request {
    Request::new(Method::Put, target).with_body(body)
}

/// Runs a future on the adapter's own runtime.
pub(crate) fn run<T: Send>(adapter: &impl BlockOn, future: impl Future<Output = T> + Send) -> T {
    let mut output = None;
    adapter.block_on(Box::pin(async {
        output = Some(future.await);
    }));
    output.expect("the future ran to its end")
}

pub(crate) fn send(
    adapter: &(impl Transport + BlockOn),
    request: Request,
) -> Result<Response, TransportError> {
    run(adapter, adapter.send(request))
}

/// Sends each request after the previous answer, in a task of the adapter's runtime.
pub(crate) fn send_in_sequence<A: Transport + BlockOn + Clone + 'static>(
    adapter: &A,
    requests: Vec<Request>,
) {
    let (done, dones) = std::sync::mpsc::channel();
    let sending = adapter.clone();
    adapter
        .spawn(Box::pin(async move {
            for request in requests {
                sending.send(request).await.unwrap();
            }
            done.send(()).unwrap();
        }))
        .unwrap();
    dones.recv().expect("every request was answered");
}

/// Asserts that an error's text is `told`, followed by its cause.
#[track_caller]
pub(crate) fn assert_told(error: &dyn StdError, told: &str) {
    let cause = error.source().expect("a cause");
    assert_eq!(error.to_string(), format!("{told}: {cause}"));
}

/// An error with all its causes, as text.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = format!("{error} / {error:?}");
    if let Some(source) = error.source() {
        text = text + " / " + &chain(source);
    }
    text
}
