//! What a semaphore and an election do on real Consul agents, with any backend, as tests.
//!
//! Each module is one behaviour. An adapter says once how it is built, by implementing [`Backend`].
//! It gets all behaviours as separate tests, or only those that depend on the backend: on its
//! connections, timers, threads or tasks, or on how it gives requests up. What depends only on the
//! core and Consul need not run on every backend at each change.
//!
//! ```text
//! real_agent_suite::tests!(MyBackend);
//! real_agent_suite::tests_of_the_backend!(MyBackend);
//! ```
//!
//! A test sets a [`Scene`](scene::Scene): an agent, a separate prefix, participants with separate
//! connections, and plain requests that check Consul's state. At its end it checks that no session,
//! contender key or holder entry is left.
//!
//! Some behaviours wait for a session to expire, or for an outage longer than a lease. They are
//! idle for half a minute, and run side by side in one test: [`long_waits`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    missing_docs,
    reason = "every public function is a test, named by what it shows"
)]

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use semaphore_core::adapter::{BlockOn, Transport};

pub mod acl;
pub mod acquire;
pub mod blocking;
pub mod cancel;
pub mod closing;
pub mod conflicts;
pub mod contention;
pub mod contest;
pub mod cut_connections;
pub mod drops;
pub mod early_ends;
pub mod elections;
pub mod forks;
pub mod gateway;
pub mod https;
pub mod keys;
pub mod leaders;
mod locker;
pub mod long_waits;
pub mod loss;
pub mod manage;
pub mod mixed_elections;
pub mod mixed_fleet;
pub mod outages;
pub mod own_node;
pub mod permits;
pub mod record_size;
pub mod scene;
pub mod session_options;
pub mod several_servers;
pub mod shared_elections;
pub mod silence;
pub mod sockets;
pub mod timeout;
pub mod try_acquire;
pub mod wrappers;

/// How an adapter is built.
pub trait Backend: Sync {
    type Adapter: Transport + BlockOn + Clone + fmt::Debug + 'static;

    /// An adapter with separate connections.
    fn build(&self, options: Options) -> Self::Adapter;
}

/// The address to connect to, and the credentials.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub url: String,
    pub ca_cert: Option<String>,
    /// The certificate and its key.
    pub client_cert: Option<(String, String)>,
    /// The same in files, which may be replaced.
    pub ca_cert_file: Option<PathBuf>,
    pub client_cert_files: Option<(PathBuf, PathBuf)>,
    /// Resolves names instead of the system. Only an adapter's own unit tests can set it.
    pub lookup: Option<Lookup>,
}

/// The addresses of every name, for tests.
#[derive(Clone)]
pub struct Lookup(pub Arc<dyn Fn() -> Vec<IpAddr> + Send + Sync>);

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

/// Turns all behaviours into tests of the calling crate. The expression gives the backend.
#[macro_export]
macro_rules! tests {
    ($backend:expr) => {
        $crate::tests! { @ $backend;
            acl:
                a_token_with_the_permissions_does_everything,
                an_unknown_token_is_refused_at_once,
                a_missing_permission_is_refused_at_once,
                a_record_that_may_not_be_read_is_left_alone,
                a_shutdown_after_a_refusal_leaves_nothing,
                a_prefix_that_may_not_be_listed_is_refused_at_once,
                a_holder_that_may_not_be_seen_is_not_evicted,
                holders_waiters_and_leaders_live_through_a_rotation_of_their_token;
            acquire:
                a_slot_is_acquired_and_given_back,
                a_slot_is_acquired_again_and_again,
                a_waiter_is_admitted_when_a_slot_is_given_back,
                waiters_are_admitted_in_the_order_in_which_they_came,
                fencing_tokens_rise_from_grant_to_grant,
                a_datacenter_and_consistent_reads_can_be_asked_for,
                a_prefix_that_needs_encoding_is_used_as_it_is;
            blocking:
                a_thread_acquires_and_gives_back,
                a_blocked_thread_is_admitted_when_a_slot_is_given_back,
                a_thread_tries_and_times_out,
                a_thread_manages_a_semaphore,
                a_blocked_thread_learns_of_a_loss;
            cancel:
                an_acquisition_dropped_at_any_point_leaves_nothing,
                a_waiter_that_is_dropped_leaves_the_queue;
            closing:
                closing_fails_those_who_wait_and_leaves_those_who_hold,
                a_shutdown_waits_for_those_who_hold,
                a_shutdown_of_an_unused_semaphore_ends_at_once;
            conflicts:
                another_limit_is_a_conflict_that_names_both,
                another_limit_is_adopted_when_asked_for,
                a_record_of_something_else_is_left_alone,
                flags_of_something_else_are_left_alone,
                each_dialect_of_the_record_is_kept;
            contention:
                fifteen_contenders_share_three_slots,
                fifteen_threads_share_three_slots,
                a_hundred_tasks_share_a_handful_of_connections,
                a_thousand_waiting_tasks_hold_a_handful_of_connections;
            cut_connections:
                holders_and_waiters_outlive_cut_connections,
                a_claim_whose_answer_is_lost_is_found_by_reading,
                a_release_whose_answer_is_lost_is_found_by_reading;
            drops:
                a_dropped_permit_is_given_back,
                dropping_everything_leaves_nothing;
            elections:
                a_leader_resigns_and_whoever_waits_leads_at_once,
                a_dropped_leadership_or_campaign_leaves_nothing,
                a_leaders_values_are_seen_by_those_who_follow,
                a_leader_whose_session_is_destroyed_notices,
                a_leader_whose_key_is_deleted_notices,
                nobody_leads_during_the_lock_delay_of_a_session_that_was_destroyed,
                an_election_and_a_semaphore_refuse_each_others_keys,
                a_thread_campaigns_leads_and_resigns;
            forks:
                a_child_holds_nothing_and_is_told_so_at_once,
                a_thread_of_a_child_waits_for_nothing;
            gateway: a_release_that_a_gateway_refuses_goes_on_until_consul_has_confirmed_it;
            https:
                an_agent_that_demands_client_certificates_is_used_with_one,
                holds_outlive_certificates_that_are_replaced;
            keys:
                the_contender_key_shows_value_and_flags,
                the_record_is_written_as_go_does;
            leaders:
                a_leader_and_its_session_are_told,
                the_checks_of_a_leaders_session_are_told,
                each_change_of_a_leader_is_seen,
                a_leaders_sequencer_is_current_until_its_term_ends,
                a_semaphores_keys_are_refused_as_an_elections,
                a_thread_follows_a_leader;
            loss:
                a_destroyed_session_is_noticed_and_its_slot_is_free,
                a_removed_holder_entry_is_noticed,
                a_removed_record_is_noticed,
                a_deleted_contender_key_is_noticed,
                a_released_contender_key_is_noticed,
                an_overwritten_contender_key_is_still_its_sessions,
                a_deregistered_node_is_noticed;
            own_node:
                a_missing_node_is_made_and_made_again_when_it_is_taken_away,
                a_node_that_somebody_else_describes_is_left_as_it_is,
                a_token_that_may_not_register_a_node_is_told_so_unless_it_is_there,
                slots_are_shared_across_datacenters,
                an_agent_that_leaves_and_a_server_that_is_reaped_end_no_hold;
            manage:
                an_inspection_shows_holders_and_waiters_in_order,
                an_inspection_of_nothing_is_not_found,
                a_greater_limit_admits_those_who_wait,
                a_smaller_limit_evicts_nobody,
                only_an_unused_semaphore_is_destroyed,
                a_sequencer_is_current_for_as_long_as_its_slot_is_held;
            mixed_elections:
                consul_lock_and_our_clients_elect_one_leader_among_them,
                the_guides_requests_and_our_clients_elect_one_leader_among_them;
            mixed_fleet: a_fleet_of_consul_lock_and_our_clients_keeps_the_limit;
            permits:
                several_permits_are_taken_and_given_back_together,
                several_permits_are_waited_for_without_holding_any;
            record_size: a_claim_with_which_the_record_outgrows_the_agents_limit_leaves_nothing;
            session_options:
                the_session_is_made_as_told,
                the_default_session_has_no_health_checks,
                a_failing_service_check_ends_the_session;
            sockets:
                slots_are_held_waited_for_and_lost_through_a_socket,
                a_hold_outlives_an_agent_that_makes_its_socket_anew;
            shared_elections:
                elections_of_a_client_stand_on_one_session_and_end_apart,
                a_session_that_is_destroyed_ends_all_terms_on_it,
                an_unlock_of_a_key_that_is_not_ours_says_so;
            timeout:
                a_wait_ends_with_its_timeout,
                a_slot_that_is_free_in_time_is_taken;
            try_acquire:
                a_free_slot_is_taken_at_once,
                a_taken_slot_is_not_waited_for;
        }
        $crate::tests! { @ long_waits $backend }
    };
    (@ long_waits $backend:expr) => {
        mod long_waits {
            use super::*;
            #[test]
            fn what_outlasts_a_lease() {
                let name = concat!(module_path!(), "::what_outlasts_a_lease");
                $crate::long_waits::what_outlasts_a_lease(&$backend, name);
            }
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

/// Turns the behaviours for names with several servers into tests of the calling crate. They need
/// [`Options::lookup`], which only the crate's own unit tests can set.
#[macro_export]
macro_rules! tests_of_several_servers {
    ($backend:expr) => {
        $crate::tests! { @ $backend;
            several_servers:
                holds_outlive_the_servers_that_they_are_renewed_through,
                holds_outlive_the_end_of_a_server_of_a_cluster;
        }
    };
}

/// Turns the behaviours that depend on the backend into tests of the calling crate.
#[macro_export]
macro_rules! tests_of_the_backend {
    ($backend:expr) => {
        $crate::tests! { @ $backend;
            acl:
                a_token_with_the_permissions_does_everything,
                an_unknown_token_is_refused_at_once;
            acquire:
                a_slot_is_acquired_and_given_back,
                a_slot_is_acquired_again_and_again,
                waiters_are_admitted_in_the_order_in_which_they_came,
                a_prefix_that_needs_encoding_is_used_as_it_is;
            blocking:
                a_thread_acquires_and_gives_back,
                a_blocked_thread_is_admitted_when_a_slot_is_given_back,
                a_thread_tries_and_times_out,
                a_thread_manages_a_semaphore,
                a_blocked_thread_learns_of_a_loss;
            cancel:
                an_acquisition_dropped_at_any_point_leaves_nothing,
                a_waiter_that_is_dropped_leaves_the_queue;
            closing:
                closing_fails_those_who_wait_and_leaves_those_who_hold,
                a_shutdown_waits_for_those_who_hold,
                a_shutdown_of_an_unused_semaphore_ends_at_once;
            contention:
                fifteen_contenders_share_three_slots,
                fifteen_threads_share_three_slots,
                a_hundred_tasks_share_a_handful_of_connections,
                a_thousand_waiting_tasks_hold_a_handful_of_connections;
            cut_connections:
                holders_and_waiters_outlive_cut_connections,
                a_claim_whose_answer_is_lost_is_found_by_reading,
                a_release_whose_answer_is_lost_is_found_by_reading;
            drops:
                a_dropped_permit_is_given_back,
                dropping_everything_leaves_nothing;
            elections:
                a_dropped_leadership_or_campaign_leaves_nothing,
                a_leaders_values_are_seen_by_those_who_follow,
                a_thread_campaigns_leads_and_resigns;
            forks:
                a_child_holds_nothing_and_is_told_so_at_once,
                a_thread_of_a_child_waits_for_nothing;
            gateway: a_release_that_a_gateway_refuses_goes_on_until_consul_has_confirmed_it;
            https:
                an_agent_that_demands_client_certificates_is_used_with_one,
                holds_outlive_certificates_that_are_replaced;
            leaders:
                each_change_of_a_leader_is_seen,
                a_thread_follows_a_leader;
            loss:
                a_destroyed_session_is_noticed_and_its_slot_is_free,
                a_removed_holder_entry_is_noticed;
            sockets:
                slots_are_held_waited_for_and_lost_through_a_socket,
                a_hold_outlives_an_agent_that_makes_its_socket_anew;
            timeout:
                a_wait_ends_with_its_timeout,
                a_slot_that_is_free_in_time_is_taken;
        }
        $crate::tests! { @ long_waits $backend }
    };
}
